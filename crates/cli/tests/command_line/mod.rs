//! The command line as real processes against a real server.

mod edges;
mod foreign;
mod run_signals;
mod run_waits;
mod support;
mod views;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use self::support::{
    at_a_terminal, bare, code, holder, list, lockhouse, path_with_lockhouse, pid_of_run, read_line, signal,
    stderr, stdout, until_childless, until_more_is_unread, until_pending,
};
use crate::process::ServerProcess;

#[test]
fn the_exit_code_is_that_of_the_command() {
    let server = ServerProcess::start("10s");
    let run =
        |script: &str| code(&lockhouse(&server, &["run", "n", "--", "sh", "-c", script]).output().unwrap());
    assert_eq!(run("exit 0"), 0);
    assert_eq!(run("exit 3"), 3);
    assert_eq!(run("kill -9 $$"), 128 + 9);
    let output = lockhouse(&server, &["run", "n", "--", "no-such-program"]).output().unwrap();
    assert_eq!(code(&output), 127);
    assert!(stderr(&output).starts_with("lockhouse: cannot run no-such-program: "), "{output:?}");
    let output = lockhouse(&server, &["run", "n", "--", "/"]).output().unwrap();
    assert_eq!(code(&output), 126);
    assert_eq!(list(&server), serde_json::json!([]), "nothing is left behind");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_rule() {
    let refused = |arguments: &[&str], rule: &str| {
        let output = bare(arguments).output().unwrap();
        assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(rule), "{arguments:?}: {}", stderr(&output));
    };
    refused(&["run", "-x", "--", "true"], "names that begin with \"-\" are reserved");
    refused(&["run", "--shared", "-x", "--", "true"], "names that begin with \"-\" are reserved");
    refused(&["run", "--name-json", "\"-x\"", "--", "true"], "a name that does not begin with \"-\"");
    refused(&["run", "--name-json", "x", "--", "true"], "must be a JSON string");
    refused(&["run", "n", "--steal", "--shared", "--", "true"], "cannot be used with");
    refused(&["run", "n", "--steal", "--if-available", "--", "true"], "cannot be used with");
    refused(&["run", "n", "--timeout", "5", "--", "true"], "a duration is written like");
    refused(&["run", "n"], "<CMD>...");
    refused(&["ls", "--url", "ftp://example.com"], "begins with http:// or https://");
    refused(&["ls", "--url", "localhost:7420"], "begins with http://");
    refused(&["ls", "--bucket", &"b".repeat(257)], "1 to 256 bytes");
    for command in [&["ls"][..], &["assignments"]] {
        let refused = |url: &str, rule: &str| refused(&[command, &["--url", url]].concat(), rule);
        refused("http://127.0.0.1:7420x", "a URL whose port is a number from 1 to 65535");
        refused("http://127.0.0.1:7420/?bucket=", "bucket: 0 bytes");
        refused("http://me:geheim@127.0.0.1:7420", "\"http://me:***@127.0.0.1:7420\"");
    }
}

#[test]
fn a_name_that_is_too_long_is_refused_with_the_rule() {
    let server = ServerProcess::start("10s");
    let output = lockhouse(&server, &["run", &"n".repeat(4097), "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 2);
    assert_eq!(stderr(&output), "lockhouse: name: 4097 units, but at most 4096 units are allowed\n");
}

#[test]
fn an_unreachable_server_is_reported_in_one_line_with_a_remedy() {
    let mut server = ServerProcess::start("10s");
    server.kill();
    for arguments in [&["ls"][..], &["run", "n", "--", "true"]] {
        let output = lockhouse(&server, arguments).output().unwrap();
        assert_eq!(code(&output), 69, "{output:?}");
        let line = stderr(&output);
        assert!(line.starts_with(&format!("lockhouse: cannot reach {}: ", server.url())), "{line}");
        assert!(line.ends_with(
            "(start one with \"lockhouse serve\", or name another with --url or LOCKHOUSE_URL)\n"
        ));
        assert_eq!(line.matches('\n').count(), 1);
    }
}

#[test]
fn of_several_urls_the_one_that_answers_is_used_and_the_command_gets_all() {
    let (server, mut dead) = (ServerProcess::start("10s"), ServerProcess::start("10s"));
    dead.kill();
    let both = format!("{},{}", dead.url(), server.url());
    let by_options = ["--url", &dead.url(), "--url", &server.url()];
    for (arguments, variable) in
        [(&by_options[..], "http://127.0.0.1:1"), (&[], &both), (&["--url", &both], "")]
    {
        for command in [&["ls"][..], &["claim", "seat", "--claimant", "Ada", "--ttl", "10m"]] {
            let mut command = bare(&[command, arguments].concat());
            let output = command.env("LOCKHOUSE_URL", variable).output().unwrap();
            assert!(matches!(code(&output), 0 | 75), "{output:?}");
        }
        let run = [&["run", "n"], arguments, &["--", "sh", "-c", "echo $LOCKHOUSE_URL"]].concat();
        let output = bare(&run).env("LOCKHOUSE_URL", variable).output().unwrap();
        assert_eq!((code(&output), stdout(&output).trim_end()), (0, &*both), "{output:?}");
    }
}

#[test]
fn several_urls_that_cannot_be_used_or_lead_nowhere_are_all_named() {
    let [mut one, mut other] = [(); 2].map(|()| ServerProcess::start("10s"));
    one.kill();
    other.kill();
    let urls = format!("{},{}", one.url(), other.url());
    for command in [&["ls"][..], &["run", "n", "--", "true"], &["claim", "n", "--claimant", "Ada"]] {
        let output = bare(command).env("LOCKHOUSE_URL", &urls).output().unwrap();
        assert_eq!(code(&output), 69, "{output:?}");
        for url in [one.url(), other.url()] {
            assert!(stderr(&output).contains(&url), "{output:?}");
        }
        let output = bare(command).env("LOCKHOUSE_URL", format!("{urls},")).output().unwrap();
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(stderr(&output).starts_with("lockhouse: url[2]: \"\", but it must be"), "{output:?}");
    }
}

#[test]
fn an_empty_bucket_variable_counts_as_none() {
    let server = ServerProcess::start("10s");
    let output = lockhouse(&server, &["ls"]).env("LOCKHOUSE_BUCKET", "").output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("bucket \"default\""), "{said}");
}

#[test]
fn a_wrong_path_is_reported_without_the_advice_to_start_a_server() {
    let server = ServerProcess::start("10s");
    let output = lockhouse(&server, &["ls", "--url", &format!("{}/foo", server.url())]).output().unwrap();
    assert_eq!(code(&output), 69, "{output:?}");
    let line = stderr(&output);
    assert!(line.contains("status 404") && !line.contains("start one"), "{line}");
}

#[test]
fn fifty_at_once_count_to_exactly_fifty() {
    let server = ServerProcess::start("10s");
    let folder = std::env::temp_dir().join(format!("lockhouse-count-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("f"), "0\n").unwrap();
    let script = "n=$(cat f); sleep .01; echo $((n+1))>f";
    let children: Vec<Child> = (0..50)
        .map(|_| {
            let mut command = lockhouse(&server, &["run", "c", "--", "sh", "-c", script]);
            command.current_dir(&folder).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 0);
        // The last ones may have waited for so long that they say for whom.
        assert!(stderr(&output).lines().all(|line| line.contains("waiting for \"c\"")), "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(folder.join("f")).unwrap().trim(), "50");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_not_granted_exits_with_75() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "n", "read _");
    let output = lockhouse(&server, &["run", "n", "--if-available", "--", "echo", "ran"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (75, ""));
    assert_eq!(stderr(&output), "lockhouse: not available: held by \"holder\", 0 waiting\n");
    let output =
        lockhouse(&server, &["run", "n", "--timeout", "50ms", "--", "echo", "ran"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (75, ""));
    assert_eq!(stderr(&output), "lockhouse: timed out before the lock was granted\n");
    drop(held.stdin.take());
    held.wait().unwrap();
    let output = lockhouse(&server, &["run", "n", "--if-available", "--", "echo", "ran"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "ran\n"));
}

#[test]
fn shared_holders_run_together_and_an_exclusive_one_waits_for_them() {
    let server = ServerProcess::start("10s");
    let shared = |script: &str| {
        let mut child = lockhouse(&server, &["run", "n", "--shared", "--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        read_line(&mut child, "held");
        child
    };
    let (first, second) = (shared("echo held; read _"), shared("echo held; read _"));
    let mut writer = lockhouse(&server, &["run", "n", "--", "echo", "wrote"]).spawn().unwrap();
    until_pending(&server, 1);
    assert!(writer.try_wait().unwrap().is_none());
    for mut reader in [first, second] {
        drop(reader.stdin.take());
        reader.wait().unwrap();
    }
    let output = writer.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "wrote\n"));
}

#[test]
fn the_command_finds_name_token_and_server_in_its_environment() {
    let server = ServerProcess::start("10s");
    let script = "echo $LOCKHOUSE_NAME $LOCKHOUSE_NAME_JSON $LOCKHOUSE_BUCKET $LOCKHOUSE_URL; echo $LOCKHOUSE_FENCING_TOKEN";
    let run = || {
        let output =
            lockhouse(&server, &["run", "n", "--bucket", "b c", "--", "sh", "-c", script]).output().unwrap();
        let text = stdout(&output).to_owned();
        let (names, token) = text.trim_end().split_once('\n').unwrap();
        assert_eq!(names, format!("n \"n\" b c {}", server.url()));
        token.parse::<u64>().unwrap()
    };
    let first = run();
    assert!(run() > first);
}

#[test]
fn names_that_arguments_cannot_hold_are_given_as_json() {
    let server = ServerProcess::start("10s");
    let script = "echo ${LOCKHOUSE_NAME-none} $LOCKHOUSE_NAME_JSON; lockhouse ls --json";
    let output = lockhouse(&server, &["run", "--name-json", r#""\ud800\u0000""#, "--", "sh", "-c", script])
        .env("PATH", path_with_lockhouse())
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(text.starts_with("none \"\\ud800\\u0000\"\n[{"), "{output:?}");
    assert!(text.contains(r#""name":"\ud800\u0000","#), "{text}");
}

/// The command gets the signal, which has that number here.
fn is_passed_on(server: &ServerProcess, sent: Signal, number: i32) {
    let script =
        format!("trap 'echo got {number}; exit 7' {number}; echo ready; while :; do sleep .02; done");
    let mut child = holder(server, "n", &script);
    read_line(&mut child, "ready");
    signal(&child, sent);
    read_line(&mut child, &format!("got {number}"));
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let server = ServerProcess::start("10s");
    for (sent, number) in [(Signal::TERM, 15), (Signal::INT, 2), (Signal::HUP, 1), (Signal::USR1, 10)] {
        is_passed_on(&server, sent, number);
    }
    let child = holder(&server, "n", "exec sleep 60");
    signal(&child, Signal::TERM);
    assert_eq!(code(&child.wait_with_output().unwrap()), 128 + 15);
    assert_eq!(list(&server), serde_json::json!([]));
}

#[test]
fn a_signal_that_comes_with_the_grant_is_not_thrown_away() {
    let server = ServerProcess::start("10s");
    for _ in 0..5 {
        let mut held = holder(&server, "n", "read _");
        let mut child = at_a_terminal(&server, "lockhouse run n -- sleep 2; exit $?");
        let pid = pid_of_run(&server, "pending");
        kill_process(pid, Signal::STOP).unwrap();
        drop(held.stdin.take());
        held.wait().unwrap();
        // As if it had been typed before there is a command that it could reach.
        kill_process(pid, Signal::INT).unwrap();
        kill_process(pid, Signal::CONT).unwrap();
        let _terminal = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
    }
}

#[test]
fn a_signal_ends_the_wait_for_the_answer_to_a_release_and_the_code_is_the_commands() {
    let server = ServerProcess::start("10m");
    let mut child = holder(&server, "n", "read _; exit 3");
    server.stop();
    drop(child.stdin.take());
    until_childless(&child);
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        signal(&child, Signal::TERM);
        assert!(begin.elapsed() < Duration::from_secs(10), "it cannot be interrupted");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("has not confirmed the release"), "{output:?}");
}

#[test]
fn a_loss_that_comes_with_the_end_of_the_command_is_reported() {
    let server = ServerProcess::start("10s");
    for _ in 0..5 {
        let mut victim = holder(&server, "n", "read _");
        signal(&victim, Signal::STOP);
        let output = lockhouse(&server, &["run", "n", "--steal", "--", "true"]).output().unwrap();
        assert_eq!(code(&output), 0);
        drop(victim.stdin.take());
        until_childless(&victim);
        signal(&victim, Signal::CONT);
        let output = victim.wait_with_output().unwrap();
        assert_eq!(code(&output), 76, "{output:?}");
        assert!(stderr(&output).contains("lost"), "{output:?}");
    }
}

#[test]
fn a_loss_that_comes_with_the_grant_keeps_the_command_from_being_begun() {
    let server = ServerProcess::start("10s");
    for _ in 0..5 {
        let mut held = holder(&server, "n", "read _");
        let late = lockhouse(&server, &["run", "n", "--", "echo", "ran"]).spawn().unwrap();
        until_pending(&server, 1);
        signal(&late, Signal::STOP);
        drop(held.stdin.take());
        held.wait().unwrap();
        let grant = until_more_is_unread(&late, 0);
        let thief = lockhouse(&server, &["run", "n", "--steal", "--", "true"]).output().unwrap();
        assert_eq!(code(&thief), 0);
        // The thief's grant and the notice of the loss travel apart.
        until_more_is_unread(&late, grant);
        signal(&late, Signal::CONT);
        let output = late.wait_with_output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (76, ""));
        let line = "lockhouse: the lock was lost before the command began: stolen by another request";
        assert_eq!(stderr(&output).lines().last(), Some(line));
    }
}

#[test]
fn a_signal_ends_the_wait_and_leaves_the_queue() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "n", "read _");
    let waiter = lockhouse(&server, &["run", "n", "--", "echo", "ran"]).spawn().unwrap();
    until_pending(&server, 1);
    signal(&waiter, Signal::INT);
    let output = waiter.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (128 + 2, ""));
    until_pending(&server, 0);
    drop(held.stdin.take());
    held.wait().unwrap();
}

#[test]
fn a_waiter_that_is_killed_outright_lets_the_next_in() {
    let server = ServerProcess::start("1s");
    let mut held = holder(&server, "n", "read _");
    let mut killed = lockhouse(&server, &["run", "n", "--", "true"]).spawn().unwrap();
    until_pending(&server, 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    drop(held.stdin.take());
    held.wait().unwrap();
    let output = lockhouse(&server, &["run", "n", "--", "echo", "ran"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "ran\n"));
}

/// A holder whose command says that it got SIGTERM.
fn victim(server: &ServerProcess) -> Child {
    let mut child =
        holder(server, "n", "trap 'echo told; exit 0' 15; echo ready; while :; do sleep .02; done");
    read_line(&mut child, "ready");
    child
}

fn gets_sigterm_and_exits_with_76(mut child: Child, why: &str) {
    read_line(&mut child, "told");
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 76);
    let line = format!("lockhouse: lost the lock \"n\" ({why}); the command got SIGTERM");
    // The shell reports that its sleep got SIGTERM, too.
    let mut lines = stderr(&output).lines().filter(|line| *line != "Terminated");
    // Whether a connection has gone is seen before the loss, or after it.
    let said = lines.next().unwrap().replace(", without a connection to the server", "");
    assert_eq!((said, lines.next()), (line, None));
}

#[test]
fn a_steal_notifies_the_command_and_exits_with_76() {
    let server = ServerProcess::start("10s");
    let victim = victim(&server);
    let output = lockhouse(&server, &["run", "n", "--steal", "--", "echo", "mine"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "mine\n"));
    gets_sigterm_and_exits_with_76(victim, "stolen by another request");
}

#[test]
fn a_server_that_was_killed_and_started_anew_knows_no_locks_and_the_command_is_notified() {
    let mut server = ServerProcess::start("10s");
    let victim = victim(&server);
    server.restart();
    gets_sigterm_and_exits_with_76(victim, "the server knows nothing of its session any more");
}

#[test]
fn a_server_that_stays_away_is_a_loss_when_the_lease_ends() {
    let mut server = ServerProcess::start("1s");
    let victim = victim(&server);
    server.kill();
    gets_sigterm_and_exits_with_76(victim, "expired");
}

#[test]
fn a_client_that_was_stopped_for_longer_than_its_lease_notifies_the_command() {
    let server = ServerProcess::start("1s");
    let victim = victim(&server);
    signal(&victim, Signal::STOP);
    let output = lockhouse(&server, &["run", "n", "--", "echo", "mine"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "mine\n"));
    signal(&victim, Signal::CONT);
    gets_sigterm_and_exits_with_76(victim, "expired");
}

#[test]
fn a_command_outlives_a_restart_of_a_server_with_a_file() {
    let mut server = ServerProcess::with_file("4s");
    let mut held = holder(&server, "n", "read _; true");
    let waiter = lockhouse(&server, &["run", "n", "--", "echo", "ran"]).spawn().unwrap();
    until_pending(&server, 1);
    let before = list(&server);
    server.restart();
    // Until the server has recovered no request is granted.
    let output = lockhouse(&server, &["run", "other", "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let after = list(&server);
    let of = |list: &serde_json::Value, key: &str| {
        let is_held = |entry: &&serde_json::Value| entry["name"] == "n" && entry["state"] == "held";
        list.as_array().unwrap().iter().find(is_held).unwrap()[key].clone()
    };
    assert_eq!(of(&before, "fencingToken"), of(&after, "fencingToken"));
    assert_eq!(of(&after, "clientId"), "holder");
    drop(held.stdin.take());
    let output = held.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let output = waiter.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "ran\n"));
}

#[test]
fn a_client_that_was_stopped_while_the_server_recovered_has_lost_its_lock() {
    let mut server = ServerProcess::with_file("1s");
    let victim = victim(&server);
    signal(&victim, Signal::STOP);
    server.restart();
    let output = lockhouse(&server, &["run", "n", "--", "echo", "mine"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "mine\n"));
    signal(&victim, Signal::CONT);
    gets_sigterm_and_exits_with_76(victim, "expired");
}

#[test]
fn a_waiter_outlives_a_restart_of_the_server() {
    let mut server = ServerProcess::start("10s");
    let victim = victim(&server);
    let waiter = lockhouse(&server, &["run", "n", "--", "echo", "ran"]).spawn().unwrap();
    until_pending(&server, 1);
    server.restart();
    let output = waiter.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "ran\n"));
    gets_sigterm_and_exits_with_76(victim, "the server knows nothing of its session any more");
}

#[test]
fn ls_json_is_one_array_with_exactly_these_keys_in_this_order() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "n", "read _");
    let mut waiter =
        lockhouse(&server, &["run", "n", "--shared", "--client-id", "waiter", "--", "true"]).spawn().unwrap();
    until_pending(&server, 1);
    let output = lockhouse(&server, &["ls", "--json"]).output().unwrap();
    let text = stdout(&output);
    let instant = |key: &str, text: &str| {
        let at = text.find(&format!("\"{key}\":\"")).unwrap() + key.len() + 4;
        let instant = &text[at..at + 24];
        humantime::parse_rfc3339(instant).unwrap();
        instant.to_owned()
    };
    let (first, second) = text.trim_end().split_once("},").unwrap();
    let listed: serde_json::Value = serde_json::from_str(text).unwrap();
    let token = listed[0]["fencingToken"].as_u64().unwrap();
    assert_eq!(
        first,
        format!(
            r#"[{{"bucket":"default","name":"n","mode":"exclusive","kind":"web","state":"held","clientId":"holder","owner":null,"since":"{}","expiresAt":null,"place":null,"fencingToken":{},"metadata":null"#,
            instant("since", first),
            token
        )
    );
    assert_eq!(
        second,
        format!(
            r#"{{"bucket":"default","name":"n","mode":"shared","kind":"web","state":"pending","clientId":"waiter","owner":null,"since":"{}","expiresAt":null,"place":1,"fencingToken":null,"metadata":null}}]"#,
            instant("since", second)
        )
    );
    let output = lockhouse(&server, &["ls"]).output().unwrap();
    let lines: Vec<Vec<&str>> = stdout(&output)
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "KIND", "MODE", "STATE", "CLIENT", "AGE", "TOKEN", "METADATA"]);
    assert_eq!(lines[1][..5], ["n", "web", "exclusive", "held", "holder"]);
    assert_eq!(lines[2][..5], ["n", "web", "shared", "waits #1", "waiter"]);
    let columns =
        |line: &str| line.find("holder").or_else(|| line.find("waiter")).or_else(|| line.find("CLIENT"));
    let at: Vec<_> = stdout(&output).lines().map(columns).collect();
    assert!(at.windows(2).all(|pair| pair[0] == pair[1]), "aligned:\n{}", stdout(&output));
    let output = lockhouse(&server, &["ls", "--bucket", "other"]).output().unwrap();
    assert_eq!(stdout(&output), "nothing is held and nobody waits in bucket \"other\"\n");
    drop(held.stdin.take());
    held.wait().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn ls_watch_prints_each_change_as_one_object_a_line() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "n", "read _");
    let mut watch = lockhouse(&server, &["ls", "--watch", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || {
        let object: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(object.as_object().unwrap().len(), 12, "{object}");
        (object["state"].as_str().unwrap().to_owned(), object["clientId"].as_str().unwrap().to_owned())
    };
    let row = |state: &str, client: &str| (state.to_owned(), client.to_owned());
    assert_eq!(next(), row("held", "holder"));
    let mut waiter = lockhouse(&server, &["run", "n", "--client-id", "waiter", "--", "sh", "-c", "read _"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(next(), row("pending", "waiter"));
    drop(held.stdin.take());
    assert_eq!([next(), next()], [row("ended", "holder"), row("held", "waiter")]);
    drop(waiter.stdin.take());
    assert_eq!(next(), row("ended", "waiter"));
    signal(&watch, Signal::TERM);
    assert_eq!(watch.wait().unwrap().signal(), Some(15));
    held.wait().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn help_has_examples_for_every_command_and_completions_come_for_every_shell() {
    for command in ["serve", "run", "ls", "completions"] {
        let output = bare(&[command, "--help"]).output().unwrap();
        let text = stdout(&output);
        assert!(text.contains(&format!("Examples:\n  lockhouse {command}")), "{command}: {text}");
    }
    for (shell, sign) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef lockhouse"),
        ("fish", "complete -c lockhouse"),
        ("elvish", "edit:"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let output = bare(&["completions", shell]).output().unwrap();
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains(sign), "{shell}");
    }
}
