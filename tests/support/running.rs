//! `lockhouse serve` as a process whose words can be waited for.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::program;

/// So long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server; killed when dropped.
pub(crate) struct Running {
    child: Child,
    /// The lines that it printed at the start.
    pub(crate) announced: Vec<String>,
    logs: Receiver<String>,
    pub(crate) address: SocketAddr,
}

/// The command line in that folder, in an environment that says nothing.
pub(crate) fn lockhouse(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program::lockhouse());
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_str().is_some_and(|name| name.starts_with("LOCKHOUSE_") || name == "RUST_LOG");
        if is_ours {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).args(arguments);
    command
}

/// Exit code, stdout, stderr.
pub(crate) fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    traces::leave(&stderr);
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// As [`run`], of one that must not go on: it is killed once it says that it runs.
pub(crate) fn run_in_vain(command: &mut Command) -> (Option<i32>, String, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    if !first.is_empty() {
        child.kill().unwrap();
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), first, String::from_utf8(stderr).unwrap())
}

impl Running {
    /// Starts `lockhouse serve` on a free port with that and more in its command line; keeps nothing.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let usual = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh"];
        Self::of(lockhouse(folder, &[&usual, arguments].concat()))
    }

    /// As [`of`](Self::of), of a server whose log is left to the caller.
    pub(crate) fn with_unread_log(mut command: Command) -> (Self, ChildStderr) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let address = first.trim().split_once("://").unwrap().1.parse().unwrap();
        let (_, logs) = channel();
        (Self { child, announced: vec![first.trim().to_owned()], logs, address }, stderr)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        if traces::folder().is_some()
            && command.get_envs().all(|(name, value)| name != "RUST_LOG" || value.is_none())
        {
            command.env("RUST_LOG", traces::MOST_TALKATIVE);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, logs) = channel();
        let mut trace = traces::log();
        std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if let Some(trace) = &mut trace {
                    trace.write_all(line.as_bytes()).unwrap();
                }
                // Whether a receiver still listens or not, the pipe has to be emptied.
                _ = sender.send(std::mem::take(&mut line));
            }
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let address = first.trim().split_once("://").unwrap_or_else(|| {
            panic!("it said {first:?} and {:?}", logs.recv_timeout(PATIENCE));
        });
        let address = address.1.parse().unwrap();
        let mut announced = vec![first.trim().to_owned()];
        // All is said at once.
        let rest = stdout.buffer().to_vec();
        announced.extend(String::from_utf8(rest).unwrap().lines().map(str::to_owned));
        Self { child, announced, logs, address }
    }

    /// The next line of the log that has this in it.
    pub(crate) fn log(&self, part: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.logs.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no {part:?} in {seen:#?}"),
            }
        }
    }

    /// SIGHUP.
    pub(crate) fn hang_up(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
    }

    /// SIGSTOP, until [`go_on`](Self::go_on).
    pub(crate) fn stand_still(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// SIGTERM; returns its exit code, and what the log says beyond what has been read.
    pub(crate) fn terminate(mut self) -> (Option<i32>, Vec<String>) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, self.logs.iter().collect())
    }

    /// The end that it comes to by itself: its exit code, and what the log says beyond what has been read.
    pub(crate) fn ended(mut self) -> (Option<i32>, Vec<String>) {
        let code = self.child.wait().unwrap().code();
        (code, self.logs.iter().collect())
    }

    /// Has come to an end by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended before.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Everything that a stream says up to its end.
pub(crate) fn all_of(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
