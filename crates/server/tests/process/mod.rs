//! Servers as processes of their own, which can be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// `lockhouse serve`; killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    lease: &'static str,
    port: String,
}

impl ServerProcess {
    pub(crate) fn start(lease: &'static str) -> Self {
        Self::listen("0", lease)
    }

    fn listen(port: &str, lease: &'static str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lockhouse"))
            .args(["serve", "--lease", lease, "--listen", &format!("127.0.0.1:{port}")])
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let port = first.trim().strip_prefix("listening http://127.0.0.1:").unwrap().to_owned();
        Self { child, lease, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    #[allow(dead_code, reason = "not every test that has a server needs more than its URL")]
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        format!("127.0.0.1:{}", self.port).parse().unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP; returns when no thread runs any more.
    #[allow(dead_code, reason = "not every test that has a server stops it")]
    pub(crate) fn stop(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
        let threads = || std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        while !threads().all(is_stopped) {
            std::thread::yield_now();
        }
    }

    /// SIGKILL, and another server at the same address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        *self = Self::listen(&self.port, self.lease);
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have been killed before.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
