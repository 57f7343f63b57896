//! Names, records and errors as people read them, and secrets that come from files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::command_line::support::{
    bare, code, holder, list, lockhouse, path_with_lockhouse, read_line, signal, stderr, stdout,
};
use crate::process::ServerProcess;
use crate::program;

/// An owner's id and secret.
fn owner(server: &ServerProcess) -> [(String, String); 2] {
    let output = lockhouse(server, &["owner", "open", "Anna"]).output().unwrap();
    traces::answer(stdout(&output));
    let variables = stdout(&output).lines().map(|line| line.split_once('=').unwrap());
    let variables: Vec<_> = variables.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    variables.try_into().unwrap()
}

#[test]
fn a_record_is_printed_as_it_is_taken_and_its_name_beside_it_where_they_differ() {
    let server = ServerProcess::start("10s");
    let variables = owner(&server);
    let run = |arguments: &[&str]| lockhouse(&server, arguments).envs(variables.clone()).output().unwrap();
    let output = run(&["lock", "customer/a b"]);
    assert!(stdout(&output).starts_with("customer/a b (name customer/a%20b)  exclusive"), "{output:?}");
    assert!(stdout(&run(&["owner", "show"])).contains("customer/a b (name customer/a%20b)"));
    let output = run(&["unlock", "customer/a%20b"]);
    assert_eq!((code(&output), stdout(&output)), (1, ""), "nothing was released");
    assert!(stderr(&output).starts_with("lockhouse: the owner holds none of customer/a%20b ("), "{output:?}");
    let output = run(&["run", "customer/a b", "--steal", "--", "true"]);
    assert_eq!(code(&output), 0);
    let note = "the name of the record \"customer/a b\" is \"customer/a%20b\"";
    assert!(stderr(&output).contains(note), "{output:?}");
    assert_eq!(stdout(&run(&["unlock", "customer/a b"])), "1 released\n");
    assert_eq!(code(&run(&["unlock", "customer/a b"])), 1);
    assert_eq!(code(&run(&["unlock", "--all"])), 0, "all that there is");
}

#[test]
fn what_a_terminal_would_obey_or_hide_is_escaped() {
    let server = ServerProcess::start("10s");
    let arguments =
        ["run", "a\u{202e}b", "--client-id", "x\u{200b}y", "--metadata", "\u{2066}m", "--", "sh", "-c"];
    let mut held = lockhouse(&server, &[&arguments[..], &["echo held; read _"]].concat())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    read_line(&mut held, "held");
    let output = lockhouse(&server, &["ls"]).output().unwrap();
    for shown in ["a\\u{202e}b", "x\\u{200b}y", "\\u{2066}m", " web "] {
        assert!(stdout(&output).contains(shown), "{}", stdout(&output));
    }
    let output = lockhouse(&server, &["claim", "a\u{202e}b", "--claimant", "Bob"]).output().unwrap();
    assert_eq!(code(&output), 75);
    assert!(stderr(&output).starts_with("lockhouse: busy: held by \"x\\u{200b}y\", 0 waiting"), "{output:?}");
    drop(held.stdin.take());
    held.wait().unwrap();
}

#[test]
fn what_is_held_is_listed_while_the_server_waits_for_it_at_its_end() {
    let mut server = ServerProcess::with_options("10s", &["--drain", "1h"]);
    let mut held = holder(&server, "job", "read _; true");
    server.begin_to_end();
    let begun = Instant::now();
    while code(&lockhouse(&server, &["run", "other", "--", "true"]).output().unwrap()) != 69 {
        assert!(begun.elapsed() < Duration::from_secs(20), "locks are granted for ever");
    }
    let listed = list(&server);
    assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&"job".into(), &"held".into()), "{listed}");
    let mut watch = lockhouse(&server, &["ls", "--watch", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&first["name"], &first["state"]), (&"job".into(), &"held".into()), "{first}");
    drop(held.stdin.take());
    assert_eq!(held.wait().unwrap().code(), Some(0));
    assert!(server.ended().success());
    signal(&watch, Signal::TERM);
    watch.wait().unwrap();
}

#[test]
fn what_a_command_cannot_use_is_wrong_usage_that_names_it_and_no_call_is_made() {
    let server = ServerProcess::start("10s");
    let variables = owner(&server);
    let url = server.url();
    let [two, fragment, encoded] =
        ["?bucket=a&bucket=b", "#x", "?bucket=%ff"].map(|rest| format!("{url}/{rest}"));
    for (arguments, expected) in [
        (&["owner", "open", "A", "--ttl", "18446744073709612s"][..], "--ttl"),
        (&["owner", "open", "A", "--max", "584942417years"], "--max"),
        (&["claim", "r", "--claimant", "A", "--ttl", "1999999us"], "--ttl"),
        (&["run", "n", "--max-hold", "500us", "--", "true"], "--max-hold"),
        (&["run", "n", "--max-hold", "0s", "--", "true"], "--max-hold"),
        (&["owner", "open", "A", "--ttl", "0s"], "--ttl"),
        (
            &["claim", "r", "--claimant", "A", "--ttl", "40d"],
            "'40d' for '--ttl <DURATION>': must be from 1ms to 30d\n",
        ),
        (
            &["owner", "open", "A", "--max", "721h"],
            "'721h' for '--max <DURATION>': must be from 1ms to 30d\n",
        ),
        (&["key", "new"], "--permission <request|steal|query|offline|claim|operate>"),
        (&["key", "new", "--permission", "query", "--tenant", ""], "--tenant"),
        (&["key", "new", "--permission", "query", "--bucket", "a*b"], "--bucket"),
        (&["backup", "x.db", "--bucket", "a"], "--bucket"),
        (&["backup", "x.db", "--url", "http://127.0.0.1:1/?bucket=a"], "--url"),
        (&["restore", "x.db", "--store", "memory:"], "can be restored"),
        (&["lock", "a/b", "--secret", "a\nb"], "--secret"),
        (&["lock", "a/b", "--secret", "xyz"], "--secret"),
        (&["owner", "show", "--owner", ""], "--owner"),
        (&["owner", "show", "--owner", "../locks"], "--owner"),
        (&["claim", "r", "--claimant", "A", "--url", &two], "names one bucket"),
        (&["claim", "r", "--claimant", "A", "--url", &fragment], "without a fragment"),
        (&["claim", "r", "--claimant", "A", "--url", &encoded], "percent-encoded"),
        (&["ls", "--url", &two], "names one bucket"),
    ] {
        let output = lockhouse(&server, arguments).envs(variables.clone()).output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (2, ""), "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {output:?}");
        assert!(!stderr(&output).contains("xyz"), "no secret is repeated");
    }
    let output = bare(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:"])
        .env("RUST_LOG", "lockhouse_server=debugg")
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("RUST_LOG"), "{output:?}");
}

/// A server of another kind, which answers every request so; its URL.
fn stranger(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            _ = stream.read(&mut [0; 4096]);
            _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn an_error_says_where_a_redirect_leads() {
    let url = stranger(
        "HTTP/1.1 301 Moved\r\nlocation: https://u:geheim@there.example/\r\ncontent-length: 0\r\n\r\n",
    );
    for command in [&["ls"][..], &["assignments"], &["claim", "r", "--claimant", "A"]] {
        let output = bare(&[command, &["--url", &url]].concat()).output().unwrap();
        assert!(stderr(&output).contains("leads to \"https://u:***@there.example/\""), "{output:?}");
    }
}

#[test]
fn a_port_that_speaks_tls_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program::lockhouse());
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh", "--tls-self-signed"]);
    command.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.split_once("://").unwrap().1.to_owned();
    for command in [&["ls"][..], &["assignments"]] {
        let output = bare(&[command, &["--url", &format!("http://{address}")]].concat()).output().unwrap();
        assert!(stderr(&output).contains("this server speaks TLS: use https://"), "{output:?}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_port_that_speaks_no_tls_says_so() {
    let server = ServerProcess::start("10s");
    let url = server.url().replace("http://", "https://");
    for command in [&["ls"][..], &["assignments"], &["claim", "r", "--claimant", "A"]] {
        let output = bare(&[command, &["--url", &url]].concat()).output().unwrap();
        assert_eq!(code(&output), 69, "{output:?}");
        let message =
            format!("lockhouse: cannot speak TLS with {url}: it answers without TLS; use http://\n");
        assert_eq!(stderr(&output), message);
    }
}

#[test]
fn while_the_server_waits_for_holders_from_before_ls_says_that_locks_may_be_missing() {
    let mut server = ServerProcess::with_file("20s");
    let mut held = holder(&server, "n", "read _");
    // The holder does not come back, and the server does not know that.
    signal(&held, Signal::STOP);
    server.restart();
    for arguments in [&["ls"][..], &["ls", "--json"], &["ls", "n"], &["ls", "--state", "held", "--json"]] {
        let output = lockhouse(&server, arguments).output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        let said = stderr(&output);
        let left = said.strip_prefix("lockhouse: the server has restarted, and waits up to ").unwrap();
        let rest = left.trim_start_matches(|c: char| c.is_ascii_digit());
        assert_eq!(rest, " s for holders from before: their locks may be missing\n");
    }
    for arguments in [&["break", "n"][..], &["break", "n", "--token", "1"], &["break", "n", "--dry-run"]] {
        let output = lockhouse(&server, arguments).output().unwrap();
        assert_eq!(code(&output), 75, "{output:?}");
        let said = stderr(&output);
        assert!(said.contains("\"n\" is not held") && said.contains("their locks may be missing"), "{said}");
    }
    let mut watch = lockhouse(&server, &["ls", "--watch", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("their locks may be missing"));
    let mut waiter = lockhouse(&server, &["run", "n", "--", "true"]).spawn().unwrap();
    let mut lines = BufReader::new(waiter.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("\"n\": the server has restarted, and waits up to "), "{line}");
    assert!(line.ends_with(" s for holders from before; place 1 of 1"), "{line}");
    for child in [&mut watch, &mut waiter, &mut held] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn what_owner_open_prints_is_exported_in_every_shell() {
    let server = ServerProcess::start("10s");
    let script = "owner=$(lockhouse owner open Anna)
        eval \"$owner\"; export LOCKHOUSE_OWNER LOCKHOUSE_OWNER_SECRET
        lockhouse lock \"customer/$0\"";
    for shell in ["bash", "dash"] {
        let mut command = Command::new(shell);
        command.args(["-euc", script, shell]).env("LOCKHOUSE_URL", server.url());
        let output = command.env("PATH", path_with_lockhouse()).output().unwrap();
        assert!(output.status.success(), "{shell}: {output:?}");
        assert!(stdout(&output).starts_with(&format!("customer/{shell}  exclusive")), "{output:?}");
    }
}

#[test]
fn a_claim_or_an_owner_whose_answer_cannot_be_written_is_given_back() {
    let server = ServerProcess::start("10s");
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let claim = ["claim", "seat/1", "--claimant", "Anna"];
    let output = lockhouse(&server, &claim).stdout(full()).output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("given back"), "{output:?}");
    let output = lockhouse(&server, &["owner", "open", "Anna"]).stdout(full()).output().unwrap();
    assert!(stderr(&output).contains("given back"), "{output:?}");
    assert_eq!(list(&server), serde_json::json!([]));
    let output = lockhouse(&server, &claim).output().unwrap();
    traces::answer(stdout(&output));
    assert_eq!(code(&output), 0);
}

#[test]
fn a_watch_ends_with_its_reader() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "n", "read _");
    let mut watch = lockhouse(&server, &["ls", "--watch", "--json"]).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut first).unwrap();
    // Nothing changes any more that it could try to write.
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    drop(held.stdin.take());
    held.wait().unwrap();
}

#[test]
fn secrets_come_from_files_and_from_stdin() {
    let server = ServerProcess::start("10s");
    let [(_, id), (_, secret)] = owner(&server);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let file = file.to_str().unwrap();
    let output =
        lockhouse(&server, &["owner", "beat", "--owner", &id, "--secret-file", file]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let output = lockhouse(&server, &["claim", "r", "--claimant", "A"]).output().unwrap();
    traces::answer(stdout(&output));
    let mut release =
        lockhouse(&server, &["release", "r", "--token-file", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    release.stdin.take().unwrap().write_all(&output.stdout).unwrap();
    assert_eq!(release.wait().unwrap().code(), Some(0));
    for (arguments, rule) in [
        (["ls", "--key-file", "/no/such/file"], "it cannot be read"),
        (["ls", "--key-file", "/dev/null"], "it is empty"),
    ] {
        let output = bare(&arguments).output().unwrap();
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains(rule), "{output:?}");
    }
}

#[test]
fn the_files_of_tls_are_passed_on_with_their_folder() {
    let server = ServerProcess::start("10s");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let arguments = ["run", "n", "--ca", "ca.pem", "--", "sh", "-c", "echo $LOCKHOUSE_CA"];
    let output = lockhouse(&server, &arguments).current_dir(&folder).output().unwrap();
    assert_eq!(stdout(&output), format!("{}/ca.pem\n", folder.display()), "{output:?}");
}

#[test]
fn a_refusal_for_a_quota_that_may_be_free_later_is_75_and_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("lockhouse.toml");
    // A session has an agent of its own for its lease.
    std::fs::write(&config, "[limits]\nagents_per_bucket = 3\n").unwrap();
    let server = ServerProcess::with_options("10s", &["--config", config.to_str().unwrap()]);
    let mut held = holder(&server, "n", "read _");
    let output = lockhouse(&server, &["run", "m", "--", "echo", "ran"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (75, ""), "{output:?}");
    assert!(stderr(&output).contains("of a bucket at once"), "{output:?}");
    drop(held.stdin.take());
    held.wait().unwrap();
    let output = lockhouse(&server, &["run", "m", "--", "echo", "ran"]).output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "ran\n"), "{output:?}");
}
