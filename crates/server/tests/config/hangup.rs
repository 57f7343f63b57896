//! A server whose terminal goes away.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::program;

const PATIENCE: Duration = Duration::from_secs(20);

/// A server in a terminal of its own.
struct InTerminal {
    terminal: Child,
    server: Pid,
    log: PathBuf,
}

impl InTerminal {
    /// Starts it behind that command of the shell.
    fn start(folder: &Path, first: &str) -> Self {
        let program = program::lockhouse();
        let log = folder.join("log");
        let serve = format!("serve --listen 127.0.0.1:0 --store memory: --fresh 2>{}", log.display());
        let line = format!("{first} echo $$; exec {program} {serve}");
        let mut terminal = Command::new("script");
        terminal.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
        terminal.env("RUST_LOG", "info").env("SHELL", "/bin/sh");
        let mut terminal = terminal.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines();
        let server = lines.next().unwrap().unwrap().trim().parse().unwrap();
        let listening = lines.next().unwrap().unwrap();
        assert!(listening.starts_with("listening http://"), "{listening}");
        Self { terminal, server: Pid::from_raw(server).unwrap(), log }
    }

    /// The terminal goes, and what the log says from then on up to this.
    fn close(&mut self, expected: &str) {
        self.terminal.kill().unwrap();
        self.terminal.wait().unwrap();
        let begin = Instant::now();
        while !fs::read_to_string(&self.log).unwrap().contains(expected) {
            assert!(begin.elapsed() < PATIENCE, "{}", fs::read_to_string(&self.log).unwrap());
            std::thread::yield_now();
        }
    }

    fn is_there(&self) -> bool {
        test_kill_process(self.server).is_ok()
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        _ = self.terminal.kill();
        _ = kill_process(self.server, Signal::KILL);
    }
}

#[test]
fn a_server_ends_with_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = InTerminal::start(folder.path(), "");
    server.close("the terminal is gone");
    let begin = Instant::now();
    while server.is_there() {
        assert!(begin.elapsed() < PATIENCE, "it is still there");
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_was_to_ignore_it_outlives_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = InTerminal::start(folder.path(), "trap '' HUP;");
    server.close("reloaded");
    assert!(server.is_there());
}

#[test]
fn a_hangup_of_a_server_whose_terminal_is_there_reloads_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = InTerminal::start(folder.path(), "");
    kill_process(server.server, Signal::HUP).unwrap();
    let begin = Instant::now();
    while !fs::read_to_string(&server.log).unwrap().contains("reloaded") {
        assert!(begin.elapsed() < PATIENCE, "{}", fs::read_to_string(&server.log).unwrap());
        std::thread::yield_now();
    }
    server.close("the terminal is gone");
}
