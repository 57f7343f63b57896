//! Servers as nodes of a fleet over one PostgreSQL, each a process of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use lockhouse::fleet::owner_of;
use lockhouse::store::{Scope, Slot};
use serde_json::Value;

use crate::postgres::Server;
use crate::running::{Running, lockhouse, run};

pub(crate) const SLOTS: u16 = 16;
pub(crate) const SLOT_LEASE: Duration = Duration::from_millis(500);
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// Long enough for whatever happens in a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// A database with the secret and the settings of the nodes over it.
pub(crate) struct Fleet {
    pub(crate) database: Server,
    pub(crate) folder: tempfile::TempDir,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "0123456789abcdef0123456789abcdef\n").unwrap();
        Self { database: Server::start(&[]), folder }
    }

    pub(crate) fn store(&self) -> String {
        let folder = self.database.folder().to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{folder}/postgres")
    }

    pub(crate) fn secret(&self) -> PathBuf {
        self.folder.path().join("secret")
    }

    /// The command that starts a node, with more options.
    pub(crate) fn command(&self, label: &str, more: &[&str]) -> Command {
        self.command_at("127.0.0.1:0", label, more)
    }

    /// The command of a node that listens there.
    pub(crate) fn command_at(&self, listen: &str, label: &str, more: &[&str]) -> Command {
        let mut command = lockhouse(self.folder.path(), &[&["serve", "--listen", listen], more].concat());
        command
            .env("LOCKHOUSE_STORE", self.store())
            .env("LOCKHOUSE_CLUSTER_SECRET_FILE", self.secret())
            .env("LOCKHOUSE_CLUSTER_NODE", label)
            .env("LOCKHOUSE_CLUSTER_SLOT_LEASE", "500ms")
            .env("LOCKHOUSE_CLUSTER_SLOTS", SLOTS.to_string())
            .env("LOCKHOUSE_LEASE", "2s");
        command
    }

    pub(crate) fn start(&self, label: &str) -> Running {
        Running::of(self.command(label, &[]))
    }

    /// So many nodes, which have settled.
    pub(crate) fn of(count: usize) -> (Self, Vec<Running>) {
        let fleet = Self::new();
        let nodes: Vec<_> = ["a", "b", "c"][..count].iter().map(|label| fleet.start(label)).collect();
        let addresses: Vec<_> = nodes.iter().collect();
        fleet.settled(&addresses);
        (fleet, nodes)
    }

    /// The fleet as a node shows it.
    pub(crate) fn view(&self, node: &Running) -> Value {
        let url = url(node);
        let (code, out, error) =
            run(&mut lockhouse(self.folder.path(), &["cluster", "--json", "--url", &url]));
        assert_eq!(code, Some(0), "{error}");
        serde_json::from_str(&out).unwrap()
    }

    /// Waits until each slot is served by the one of these nodes that it is for, so that none moves any more.
    pub(crate) fn settled(&self, nodes: &[&Running]) -> Value {
        until_settled(nodes.len(), || self.view(nodes[0]))
    }

    /// Whether the node of that label has the bucket.
    pub(crate) fn is_at(&self, node: &Running, bucket: &str, label: &str) -> bool {
        self.is_at_in(&self.view(node), bucket, label)
    }

    /// The same, by a view that was taken before.
    pub(crate) fn is_at_in(&self, view: &Value, bucket: &str, label: &str) -> bool {
        let slot = Slot::of(&Scope::new("", bucket), SLOTS);
        view["slots"][usize::from(slot.get())]["node"] == label
    }

    /// A bucket of that node, by its label.
    pub(crate) fn bucket_at(&self, node: &Running, label: &str) -> String {
        let view = self.view(node);
        let is_at = |slot: Slot| view["slots"][usize::from(slot.get())]["node"] == label;
        let mut names = (0..).map(|number| format!("bucket-{number}"));
        names.find(|name| is_at(Slot::of(&Scope::new("", name.as_str()), SLOTS))).unwrap()
    }
}

/// Looks at a fleet of so many nodes until each slot is served by the node that it is for.
pub(crate) fn until_settled(count: usize, look: impl Fn() -> Value) -> Value {
    let begun = Instant::now();
    loop {
        let view = look();
        let labels: Vec<_> =
            view["nodes"].as_array().unwrap().iter().filter_map(|node| node["node"].as_str()).collect();
        let is_at_home = |slot: &Value| {
            let number = Slot::new(slot["slot"].as_u64().unwrap() as u16);
            let is_served = matches!(slot["state"].as_str(), Some("serving" | "recovering"));
            is_served && slot["node"].as_str() == owner_of(number, &labels)
        };
        if labels.len() == count && view["slots"].as_array().unwrap().iter().all(is_at_home) {
            return view;
        }
        assert!(begun.elapsed() < PATIENCE, "{view:#}");
    }
}

pub(crate) fn url(node: &Running) -> String {
    format!("http://{}", node.address)
}
