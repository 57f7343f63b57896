//! A server for rings that are clients of their own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::workspace::tree;

/// A server that keeps nothing; killed when dropped.
pub(super) struct RunningServer(Child);

impl RunningServer {
    /// The server, and its URL.
    pub(super) fn start(root: &Path, binary: &Path) -> Result<(Self, String)> {
        let log = traces::log_in(&tree::traces_folder(root)?);
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh"];
        let mut command = Command::new(binary);
        command.args(arguments).env("RUST_LOG", traces::MOST_TALKATIVE);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        let stdout = child.stdout.take();
        let server = Self(child);
        let mut line = String::new();
        BufReader::new(stdout.context("the server has no output")?).read_line(&mut line)?;
        let url =
            line.trim().strip_prefix("listening ").context("the server did not say where it listens")?;
        Ok((server, url.to_owned()))
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
