//! A fleet of real servers over a PostgreSQL, all processes of their own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{JoinHandle, spawn};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::postgres::Server;

/// A fleet of servers; all of it ends when it is dropped.
pub(super) struct Nodes {
    program: PathBuf,
    slots: u16,
    nodes: Vec<NodeServer>,
    database: Server,
    /// With the secret.
    folder: TempDir,
}

/// A server that is a node.
pub(crate) struct NodeServer {
    pub(crate) label: String,
    pub(crate) url: String,
    child: Child,
    /// When its last confirmed commit was sent, if its log says so.
    confirmed: Arc<Mutex<Option<SystemTime>>>,
    /// Reads its log; returns what is no news of slots.
    log: Option<JoinHandle<String>>,
}

/// What a node says of itself or of a slot.
#[derive(Debug)]
pub(crate) struct NodeLine {
    pub(crate) label: String,
    pub(crate) what: String,
    pub(crate) slot: Option<u16>,
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
    pub(super) fn start_node(
        &mut self,
        label: &str,
        options: &[&str],
        lines: Sender<NodeLine>,
    ) -> Result<&NodeServer> {
        let mut command = server(&self.program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--node", label, "--store", &self.store()]);
        command.arg("--cluster-secret-file").arg(self.folder.path().join("secret")).args(options);
        command.env("LOCKHOUSE_CLUSTER_SLOTS", self.slots.to_string());
        command.current_dir(self.folder.path());
        self.nodes.push(NodeServer::start(command, label, lines, None)?);
        self.nodes.last().context("it was just added")
    }

    /// Takes a node out, to be killed.
    pub(super) fn take(&mut self, label: &str) -> Option<NodeServer> {
        let at = self.nodes.iter().position(|node| node.label == label)?;
        Some(self.nodes.remove(at))
    }

    /// Stops the database, and leaves its files.
    pub(super) fn stop_database(&mut self) {
        self.database.stop();
    }

    /// Starts it again.
    pub(super) fn start_database(&mut self) {
        self.database.start_again();
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeServer> {
        self.nodes.iter()
    }

    /// Waits until all nodes have ended.
    pub(super) fn end(&mut self) {
        self.nodes.iter_mut().for_each(|node| _ = node.child.wait());
    }
}

/// The server, without the settings of our own environment, with the levels of the log that its readers need.
pub(crate) fn server(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("LOCKHOUSE_")) {
            command.env_remove(name);
        }
    }
    command.env("RUST_LOG", "info,lockhouse_server::store=debug");
    command
}

impl NodeServer {
    /// Starts a node with this command. What it says of slots goes to `lines`, all that it says to `file`.
    pub(crate) fn start(
        mut command: Command,
        label: &str,
        lines: Sender<NodeLine>,
        file: Option<File>,
    ) -> Result<Self> {
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_owned();
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let confirmed = Arc::<Mutex<_>>::default();
        let mut node = Self {
            label: label.to_owned(),
            url: String::new(),
            child,
            confirmed: confirmed.clone(),
            log: None,
        };
        let log = spawn_reader(
            label.to_owned(),
            BufReader::new(stderr.context("it has no log")?),
            lines,
            confirmed,
            file,
        );
        let mut first = String::new();
        BufReader::new(stdout.context("it has no output")?).read_line(&mut first)?;
        let Some(url) = first.trim().strip_prefix("listening ") else {
            // It has ended, and its log with it.
            bail!("the node {label} does not start: {}", log.join().unwrap_or_default());
        };
        node.log = Some(log);
        url.clone_into(&mut node.url);
        Ok(node)
    }

    /// Stops it, or lets it go on.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("the node has ended")
    }

    /// How it has ended by itself, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL. Returns when its last confirmed commit was sent, once its log is read to its end.
    pub(crate) fn kill(mut self) -> Option<SystemTime> {
        // It has not ended by itself, or that shows elsewhere.
        _ = self.child.kill();
        _ = self.child.wait();
        _ = self.log.take().map(JoinHandle::join);
        *self.confirmed.lock()
    }

    /// SIGTERM, if it has not ended by itself.
    pub(super) fn begin_to_end(&self) {
        _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }
}

impl Drop for NodeServer {
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
    lines: Sender<NodeLine>,
    confirmed: Arc<Mutex<Option<SystemTime>>>,
    mut file: Option<File>,
) -> JoinHandle<String> {
    spawn(move || {
        let mut rest = String::new();
        for line in log.lines().map_while(Result::ok) {
            // A full disk loses lines of the log, and nothing else.
            file.iter_mut().for_each(|file| _ = writeln!(file, "{line}"));
            if let Some(sent) = sent(&line) {
                *confirmed.lock() = Some(sent);
                continue;
            }
            match news(&label, &line) {
                // The log is read to its end, whether its news are still shown or not.
                Some(news) => _ = lines.send(news),
                None => rest = format!("{rest}{line}\n"),
            }
        }
        rest
    })
}

/// When the commit was sent that the line says to be confirmed.
fn sent(line: &str) -> Option<SystemTime> {
    let (_, sent) = line.split_once("a commit is confirmed sent=")?;
    humantime::parse_rfc3339(sent.trim()).ok()
}

/// What a line of the log says of the fleet; none if it is about something else.
fn news(label: &str, line: &str) -> Option<NodeLine> {
    let (level, text) = line.split_once("lockhouse_server::store: ")?;
    if level.contains("DEBUG") {
        return None;
    }
    let slot = text.split_once("slot=").map(|(_, rest)| rest.split(' ').next().unwrap_or(rest));
    let slot = slot.and_then(|slot| slot.parse().ok());
    let what = match slot {
        Some(slot) => text.replace(&format!(" slot={slot}"), ""),
        None => text.to_owned(),
    };
    Some(NodeLine { label: label.to_owned(), what, slot })
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
        let debug = "2026-11-01T00:00:00.000000Z DEBUG lockhouse_server::store: slot not taken slot=7";
        assert_eq!(said(debug), None);
    }
}
