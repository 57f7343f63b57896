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

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGKILL, and another server at the same address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        *self = Self::listen(&self.port, self.lease);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have been killed before.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
