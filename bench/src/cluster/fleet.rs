//! A fleet of two nodes, each with slots of its own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lockhouse::fleet::owner_of;
use lockhouse::store::{Scope, Slot};
use serde::Deserialize;

use crate::server as servers;
use crate::server::codec::claims::Answer;
use crate::server::process::{Folder, Server};

/// Two nodes over one PostgreSQL.
pub(super) struct Fleet {
    /// The node that has the bucket of all clients.
    pub(super) owner: Server,
    /// The other one, which has half of the slots, too.
    pub(super) other: Server,
    /// With the secret.
    _folder: Folder,
}

/// The answer of `GET /v1/cluster`, as far as it is read.
#[derive(Deserialize)]
struct View {
    nodes: Vec<NodeView>,
    slots: Vec<SlotView>,
}

#[derive(Deserialize)]
struct NodeView {
    node: String,
}

#[derive(Deserialize)]
struct SlotView {
    slot: u16,
    node: Option<String>,
    state: String,
}

const LABELS: [&str; 2] = ["a", "b"];

/// The bucket of all clients, as they name none.
const BUCKET: &str = "default";

/// How long the nodes may take to share the slots.
const LONGEST: Duration = Duration::from_secs(60);

/// Between two looks whether they have.
const PAUSE: Duration = Duration::from_millis(100);

impl Fleet {
    /// Starts the nodes, and waits until each serves its slots.
    pub(super) fn start(program: &Path, cpu: usize, database: SocketAddr) -> Result<Self> {
        let folder = Folder::new("secret")?;
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "a secret for nodes on one machine only")?;
        let start = |label: &'static str| {
            // A few words for each run of the suite.
            let store: &'static str = format!("postgres://postgres@{database}/postgres").leak();
            let secret: &'static str = secret.to_string_lossy().into_owned().leak();
            let fleet = ["--store", store, "--node", label, "--cluster-secret-file", secret];
            servers::lockhouse(program, Some(cpu), &fleet).start()
        };
        let [first, second] = LABELS.map(start);
        let (first, second) = (first?, second?);
        let slots = wait_until_settled(&[&first, &second])?;
        let home = owner_of(Slot::of(&Scope::new("", BUCKET), slots), &LABELS);
        let (owner, other) = if home == Some(LABELS[0]) { (first, second) } else { (second, first) };
        Ok(Self { owner, other, _folder: folder })
    }
}

/// Waits until every node sees each slot served by the node that it is for. Returns how many slots there are.
fn wait_until_settled(nodes: &[&Server]) -> Result<u16> {
    let start = Instant::now();
    loop {
        let views = nodes.iter().map(|node| view(node.address)).collect::<Result<Vec<_>>>()?;
        if views.iter().all(View::is_settled) {
            let slots = views.first().map_or(0, |view| view.slots.len());
            return Ok(u16::try_from(slots)?);
        }
        let output = || nodes.iter().map(|node| node.output()).collect::<String>();
        ensure!(start.elapsed() < LONGEST, "the slots are not shared within {LONGEST:?}: {}", output());
        sleep(PAUSE);
    }
}

/// The fleet, as that node sees it.
fn view(address: SocketAddr) -> Result<View> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONGEST))?;
    let question = format!("GET /v1/cluster HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(question.as_bytes())?;
    let mut input = Vec::new();
    stream.read_to_end(&mut input)?;
    let answer = Answer::read(&input)?.context("an answer that ends too soon")?;
    ensure!(answer.status == 200, "{} {}", answer.status, String::from_utf8_lossy(answer.body));
    Ok(serde_json::from_slice(answer.body)?)
}

impl View {
    fn is_settled(&self) -> bool {
        let is_at_home = |slot: &SlotView| {
            slot.state == "serving" && slot.node.as_deref() == owner_of(Slot::new(slot.slot), &LABELS)
        };
        LABELS.iter().all(|label| self.nodes.iter().any(|node| node.node == *label))
            && self.slots.iter().all(is_at_home)
    }
}
