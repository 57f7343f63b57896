//! A fleet of real servers over a PostgreSQL, all processes of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread::spawn;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::postgres::Server;

/// A fleet of servers; all of it ends when it is dropped.
pub(super) struct Nodes {
    program: PathBuf,
    slots: u16,
    nodes: Vec<Node>,
    database: Server,
    /// With the secret.
    folder: TempDir,
}

/// A server that is a node.
pub(super) struct Node {
    pub(super) url: String,
    child: Child,
}

/// What a node says of itself or of a slot.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) label: String,
    pub(super) what: String,
    pub(super) slot: Option<u16>,
}

impl Nodes {
    /// Starts the database.
    pub(super) fn start(program: &Path, slots: u16) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // It serves this run on this machine only.
        fs::write(folder.path().join("secret"), b"a secret for nodes on one machine only")?;
        let database = Server::start_apart(&[]);
        Ok(Self { program: program.to_owned(), slots, nodes: Vec::new(), database, folder })
    }

    /// The URL of the database.
    pub(super) fn store(&self) -> String {
        let folder = self.database.folder().display().to_string();
        format!("postgres://postgres@{}/postgres", folder.replace('/', "%2F"))
    }

    /// Starts a node at a free port, with these options; what it says of slots goes to `lines`.
    pub(super) fn start_node(&mut self, label: &str, options: &[&str], lines: Sender<Line>) -> Result<&Node> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("LOCKHOUSE_")) {
                command.env_remove(name);
            }
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--node", label, "--store", &self.store()]);
        command.arg("--cluster-secret-file").arg(self.folder.path().join("secret")).args(options);
        command.env("LOCKHOUSE_CLUSTER_SLOTS", self.slots.to_string()).env("RUST_LOG", "info");
        command.current_dir(self.folder.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut node = Node { url: String::new(), child };
        let said = spawn_reader(label.to_owned(), BufReader::new(stderr.context("it has no log")?), lines);
        let mut first = String::new();
        BufReader::new(stdout.context("it has no output")?).read_line(&mut first)?;
        let Some(url) = first.trim().strip_prefix("listening ") else {
            // It has ended, and its log with it.
            bail!("the node {label} does not start: {}", said.join().unwrap_or_default());
        };
        url.clone_into(&mut node.url);
        self.nodes.push(node);
        self.nodes.last().context("it was just added")
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// Waits until all nodes have ended.
    pub(super) fn end(&mut self) {
        self.nodes.iter_mut().for_each(|node| _ = node.child.wait());
    }
}

impl Node {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM, if it has not ended by itself.
    pub(super) fn begin_to_end(&self) {
        _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The process may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Reads the log of a node to its end. Returns its last lines that are no news of slots.
fn spawn_reader(
    label: String,
    log: impl BufRead + Send + 'static,
    lines: Sender<Line>,
) -> std::thread::JoinHandle<String> {
    spawn(move || {
        let mut rest = String::new();
        for line in log.lines().map_while(Result::ok) {
            match news(&label, &line) {
                // Where nobody listens any more, the log is read all the same.
                Some(news) => _ = lines.send(news),
                None => rest = format!("{rest}{line}\n"),
            }
        }
        rest
    })
}

/// What a line of the log says of the fleet; none if it is about something else.
fn news(label: &str, line: &str) -> Option<Line> {
    let (_, text) = line.split_once("lockhouse_server::store: ")?;
    let slot = text.split_once("slot=").map(|(_, rest)| rest.split(' ').next().unwrap_or(rest));
    let slot = slot.and_then(|slot| slot.parse().ok());
    let what = match slot {
        Some(slot) => text.replace(&format!(" slot={slot}"), ""),
        None => text.to_owned(),
    };
    Some(Line { label: label.to_owned(), what, slot })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_node_says_what_moves() {
        let said = |line| news("a", line).map(|line| (line.what, line.slot));
        let taken = "2026-11-01T00:00:00.000000Z  INFO lockhouse_server::store: slot taken slot=7";
        assert_eq!(said(taken), Some(("slot taken".to_owned(), Some(7))));
        let dead = "2026-11-01T00:00:00.000000Z  INFO lockhouse_server::store: a node is dead node=\"b\"";
        assert_eq!(said(dead), Some(("a node is dead node=\"b\"".to_owned(), None)));
        assert_eq!(said("2026-11-01T00:00:00.000000Z  INFO lockhouse_server::server::drain: stopping"), None);
    }
}
