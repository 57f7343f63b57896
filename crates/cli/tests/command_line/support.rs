//! Commands as real processes, and what is known of them from outside.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::ServerProcess;
use crate::program;

/// `lockhouse` with these arguments, without anything of the environment that would change what it does.
pub(crate) fn lockhouse(server: &ServerProcess, arguments: &[&str]) -> Command {
    let mut command = bare(arguments);
    command.env("LOCKHOUSE_URL", server.url());
    command
}

pub(crate) fn bare(arguments: &[&str]) -> Command {
    let mut command = Command::new(program::lockhouse());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("LOCKHOUSE_URL").env_remove("LOCKHOUSE_BUCKET");
    command
}

pub(crate) fn code(output: &Output) -> i32 {
    traces::leave(&output.stderr);
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A command that holds `name` and has said so.
pub(crate) fn holder(server: &ServerProcess, name: &str, script: &str) -> Child {
    let script = format!("echo held; {script}");
    let mut child = lockhouse(server, &["run", name, "--client-id", "holder", "--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    read_line(&mut child, "held");
    child
}

/// Reads the next line byte by byte, so that nothing behind it is lost.
pub(crate) fn read_line(child: &mut Child, expected: &str) {
    let out = child.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "ended after {:?}", String::from_utf8_lossy(&line));
        line.push(byte[0]);
    }
    assert_eq!(String::from_utf8(line).unwrap().trim_end(), expected);
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

pub(crate) fn list(server: &ServerProcess) -> serde_json::Value {
    let output = lockhouse(server, &["ls", "--json"]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(stdout(&output).matches('\n').count(), 1, "one line");
    serde_json::from_str(stdout(&output)).unwrap()
}

/// Looks until that many requests wait.
pub(crate) fn until_pending(server: &ServerProcess, count: usize) {
    let begin = Instant::now();
    let pending = |list: &serde_json::Value| {
        list.as_array().unwrap().iter().filter(|entry| entry["state"] == "pending").count()
    };
    while pending(&list(server)) != count {
        assert!(begin.elapsed() < Duration::from_secs(20), "{count} never waited");
    }
}

pub(crate) fn path_with_lockhouse() -> String {
    let folder = std::path::Path::new(program::lockhouse()).parent().unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// A shell's command line at a terminal of its own, at which [`Child::stdin`] types.
pub(crate) fn at_a_terminal(server: &ServerProcess, line: &str) -> Child {
    let mut command = Command::new("script");
    command.args(["--quiet", "--echo", "always", "--return", "--command", line, "/dev/null"]);
    command.env("PATH", path_with_lockhouse()).env("LOCKHOUSE_URL", server.url());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The process of the `lockhouse run` that waits or holds under its default label.
pub(crate) fn pid_of_run(server: &ServerProcess, state: &str) -> Pid {
    let begin = Instant::now();
    loop {
        let list = list(server);
        let found = list.as_array().unwrap().iter().find(|row| row["state"] == state);
        if let Some(row) = found {
            let pid = row["clientId"].as_str().unwrap().rsplit(':').next().unwrap();
            return Pid::from_raw(pid.parse().unwrap()).unwrap();
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "none is {state}");
    }
}

/// Looks until every child of the process has ended.
pub(crate) fn until_childless(parent: &Child) {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", parent.id())).unwrap();
    let has_ended = |pid: &str| {
        // One that was waited for is not there any more.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
    };
    while !children.split_whitespace().all(has_ended) {
        std::thread::yield_now();
    }
}

/// Looks until the sockets of the process have more bytes for it to read than that; returns the count.
pub(crate) fn until_more_is_unread(process: &Child, than: u64) -> u64 {
    let folder = format!("/proc/{}", process.id());
    let links = std::fs::read_dir(format!("{folder}/fd")).unwrap();
    let links = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
    let sockets: Vec<String> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let unread = || {
        let table = std::fs::read_to_string(format!("{folder}/net/tcp")).unwrap();
        let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let own = rows.filter(|row| sockets.iter().any(|socket| row[9] == socket));
        own.map(|row| u64::from_str_radix(row[4].split_once(':').unwrap().1, 16).unwrap()).sum::<u64>()
    };
    let begin = Instant::now();
    loop {
        let count = unread();
        if count > than {
            return count;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "no more than {than} bytes came");
        std::thread::yield_now();
    }
}
