//! What `lockhouse run` waits for, how long, and what it says of that.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::command_line::support::{
    bare, code, holder, list, lockhouse, path_with_lockhouse, stderr, stdout, until_childless, until_pending,
};
use crate::process::ServerProcess;

#[test]
fn a_command_that_ends_while_the_server_restarts_keeps_its_own_code() {
    for mut server in [ServerProcess::start("20s"), ServerProcess::with_file("20s")] {
        let mut child = holder(&server, "n", "read _; exit 3");
        server.kill();
        drop(child.stdin.take());
        until_childless(&child);
        server.start_again();
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), stderr(&output)), (3, ""));
    }
}

#[test]
fn a_command_that_ends_while_the_server_stays_away_keeps_its_own_code() {
    let mut server = ServerProcess::start("2s");
    let mut child = holder(&server, "n", "read _; exit 3");
    server.kill();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (3, ""));
}

#[test]
fn the_timeout_is_one_clock_from_the_start() {
    // The kernel accepts the connection, and no process answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    for more in [&[][..], &["--if-available"], &["--wait-for-server"]] {
        let arguments = [&["run", "n", "--url", &url, "--timeout", "300ms"], more, &["--", "true"]].concat();
        let begin = std::time::Instant::now();
        let output = bare(&arguments).output().unwrap();
        assert_eq!(code(&output), 69, "{output:?}");
        assert!(begin.elapsed() < std::time::Duration::from_secs(9), "sooner than without the option");
        assert_eq!(stderr(&output), format!("lockhouse: cannot reach {url}: no answer before the timeout\n"));
    }
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let mut server = ServerProcess::start("10s");
    server.kill();
    let mut child =
        lockhouse(&server, &["run", "n", "--wait-for-server", "--", "echo", "ran"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("cannot reach") && line.ends_with("waiting for it"), "{line}");
    server.start_again();
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (0, "ran\n"));
    assert!(lines.next().is_none(), "it says so once");
}

#[test]
fn off_a_terminal_a_wait_says_once_whom_it_waits_for() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "n", "read _");
    let mut waiter = lockhouse(&server, &["run", "n", "--", "true"]).spawn().unwrap();
    let mut lines = BufReader::new(waiter.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.starts_with("lockhouse: waiting for \"n\": held by \"holder\" for "), "{line}");
    assert!(line.ends_with("; place 1 of 1"), "{line}");
    drop(held.stdin.take());
    held.wait().unwrap();
    waiter.wait().unwrap();
    assert!(lines.next().is_none());
}

#[test]
fn what_is_not_granted_may_have_a_code_of_its_own() {
    let server = ServerProcess::start("10s");
    let mut held = holder(&server, "n", "read _");
    for limit in [&["--if-available"][..], &["--timeout", "2s"]] {
        let arguments = [&["run", "n", "-E", "9"], limit, &["--", "true"]].concat();
        let output = lockhouse(&server, &arguments).output().unwrap();
        assert_eq!(code(&output), 9, "{output:?}");
    }
    drop(held.stdin.take());
    held.wait().unwrap();
}

#[test]
fn a_lock_has_metadata_and_a_longest_hold() {
    let server = ServerProcess::start("10s");
    let mut waiting = holder(&server, "n", "read _");
    let waiter = lockhouse(
        &server,
        &["run", "n", "--metadata", "nightly", "--max-hold", "100ms", "--", "sleep", "60"],
    )
    .spawn()
    .unwrap();
    until_pending(&server, 1);
    let listed = list(&server);
    assert_eq!(listed[1]["metadata"], "nightly", "{listed}");
    drop(waiting.stdin.take());
    waiting.wait().unwrap();
    let output = waiter.wait_with_output().unwrap();
    assert_eq!(code(&output), 76);
    assert!(stderr(&output).contains("lost the lock \"n\" (expired)"), "{output:?}");
}

#[test]
fn a_lock_that_is_lost_as_the_server_is_away_says_so() {
    let server = ServerProcess::start("500ms");
    let held = holder(&server, "n", "exec sleep 60");
    drop(server);
    let output = held.wait_with_output().unwrap();
    assert_eq!(code(&output), 76);
    let said = "lost the lock \"n\" (expired, without a connection to the server)";
    assert!(stderr(&output).contains(said), "{output:?}");
}

#[test]
fn if_available_says_that_the_bucket_recovers_and_obeys_its_timeout() {
    let mut server = ServerProcess::with_file("8s");
    let mut held = holder(&server, "n", "read _");
    server.restart();
    let arguments = ["run", "m", "--if-available", "--timeout", "1500ms", "--", "true"];
    let output = lockhouse(&server, &arguments).output().unwrap();
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(stderr(&output).contains("the bucket recovers from a restart of the server"), "{output:?}");
    let output = lockhouse(&server, &["run", "m", "--if-available", "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(stderr(&output).contains("the bucket recovers from a restart of the server"), "{output:?}");
    drop(held.stdin.take());
    held.wait().unwrap();
}

#[test]
fn a_script_without_an_interpreter_line_runs_in_the_shell() {
    let server = ServerProcess::start("10s");
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("a script");
    std::fs::write(&script, "echo \"$1 in $0\"; exit 5\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), path_with_lockhouse());
    for program in [script.to_str().unwrap(), "a script"] {
        let output = lockhouse(&server, &["run", "n", "--", program, "x"])
            .env("PATH", &path)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = format!("x in {}\n", script.display());
        assert_eq!((code(&output), stdout(&output)), (5, &*said), "{output:?}");
    }
}
