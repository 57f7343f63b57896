//! The nodes of the fleet, each in a network of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result, ensure};
use lockhouse_server::auth::NewKey;
use rustix::process::Signal;

use super::faults::clocks;
use super::network::{NODES, address, within};
use super::places::SLOTS;
use super::{FOLDER, LEASE, SLOT_LEASE};
use crate::cluster::nodes::{NodeLine, NodeServer, server};

pub(super) struct Nodes {
    program: PathBuf,
    store: String,
    /// For their logs.
    folder: PathBuf,
    nodes: [Option<NodeServer>; 3],
    sender: Sender<NodeLine>,
    lines: Receiver<NodeLine>,
}

/// The file with the key of the clients.
pub(super) fn key_file() -> PathBuf {
    PathBuf::from(FOLDER).join("key")
}

/// Their URLs.
pub(super) fn urls() -> Vec<String> {
    NODES.map(|node| format!("http://{}:7420", address(node))).into()
}

impl Nodes {
    /// Starts all of them over that store.
    pub(super) fn start(program: &Path, store: String, folder: &Path) -> Result<Self> {
        let NewKey { text: key, hash } = NewKey::draw("chaos").context("it is an id")?;
        traces::secret(traces::Kind::ApiKey, &key);
        std::fs::write(key_file(), key)?;
        let all = r#"["request", "steal", "query", "offline", "claim", "operate"]"#;
        let settings =
            format!("[[auth.keys]]\nid = \"chaos\"\nhash = \"{hash}\"\nbuckets = {{ \"*\" = {all} }}\n");
        std::fs::write(settings_file(), settings)?;
        // It serves this run in this network only.
        std::fs::write(secret_file(), b"a secret for nodes in one network only")?;
        let (sender, lines) = channel();
        let (program, folder) = (program.to_owned(), folder.to_owned());
        let mut nodes = Self { program, store, folder, nodes: [None, None, None], sender, lines };
        (0..NODES.len()).try_for_each(|place| nodes.start_node(place))?;
        Ok(nodes)
    }

    /// Starts a node that was killed.
    pub(super) fn start_node(&mut self, place: usize) -> Result<()> {
        let label = NODES[place];
        let mut command = server(&self.program);
        let url = urls().swap_remove(place);
        command.arg("serve").arg("--config").arg(settings_file());
        command.args(["--listen", url.trim_start_matches("http://"), "--advertise", &url, "--node", label]);
        command.args(["--store", &self.store, "--cluster-secret-file"]).arg(secret_file());
        let [slot_lease, lease] = [SLOT_LEASE, LEASE].map(|length| format!("{}ms", length.as_millis()));
        command.args(["--slot-lease", &slot_lease, "--lease", &lease]);
        command.env("LOCKHOUSE_CLUSTER_SLOTS", SLOTS.to_string()).env("LOCKHOUSE_CLUSTER_PLAIN", "true");
        command.env(clocks::VARIABLE, clocks::file(label)).current_dir(FOLDER);
        let log = self.folder.join(format!("node-{label}.log"));
        let log = File::options().create(true).append(true).open(log)?;
        let sender = self.sender.clone();
        self.nodes[place] = Some(within(label, || NodeServer::start(command, label, sender, Some(log)))?);
        Ok(())
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, place: usize) -> Result<()> {
        self.nodes[place].take().context("it runs")?.kill();
        Ok(())
    }

    pub(super) fn signal(&self, place: usize, signal: Signal) -> Result<()> {
        self.nodes[place].as_ref().context("it runs")?.signal(signal)
    }

    /// Whether none has ended by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        for node in self.nodes.iter_mut().flatten() {
            let ended = node.ended()?;
            ensure!(ended.is_none(), "the node {} ended by itself: {ended:?}, see its log", node.label);
        }
        Ok(())
    }

    /// How many slots were taken since the last call.
    pub(super) fn slots_taken(&self) -> usize {
        self.lines
            .try_iter()
            .filter(|line| line.slot.is_some() && line.what.starts_with("slot taken"))
            .count()
    }
}

fn settings_file() -> PathBuf {
    PathBuf::from(FOLDER).join("lockhouse.toml")
}

fn secret_file() -> PathBuf {
    PathBuf::from(FOLDER).join("secret")
}
