//! The parts of `lockhouse cluster` that ask a node.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::common::api::{ACCEPTED, BucketClient, Call};
use crate::common::print::{print, text, visible};
use crate::common::shape::{Promised, Shape};
use crate::common::target::Target;
use crate::exit::Failure;

/// Shows the nodes and slots of a fleet.
#[derive(Debug, Args)]
pub struct Show {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

/// Let a node give all its slots to the others, before it is stopped or while it is looked at.
///
/// Locks stay with their holders. The node goes on to serve clients by handing on what they send, and is no
/// node of the fleet any more: it takes slots again after its next start. "lockhouse cluster" shows how far
/// it is.
#[derive(Debug, Args)]
pub struct Drain {
    /// The label of the node, by default the one that is asked
    #[arg(value_name = "NODE")]
    node: Option<String>,

    #[command(flatten)]
    asked: Show,
}

impl Show {
    /// Asks, and prints the answer. It can be dropped at any time.
    ///
    /// # Errors
    ///
    /// The node refuses or cannot be reached, or stdout cannot be written to.
    pub async fn run(self) -> Result<ExitCode, Failure> {
        let call = Call::get(&["cluster"]).of_server();
        let fleet = BucketClient::new(&self.target)?.call(call, FLEET).await?;
        print(self.json, &fleet, || lines(&fleet))
    }
}

/// The members of a fleet.
pub const FLEET: Promised = &[
    ("nodes", Shape::List(&[("node", Shape::Word), ("address", Shape::Text)])),
    ("slots", Shape::List(&[("slot", Shape::Number), ("state", Shape::Word)])),
    ("moving", Shape::Number),
];

/// A line for each node, and one for each node and state of slots.
fn lines(fleet: &Value) -> Vec<String> {
    let nodes = fleet["nodes"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = nodes.map(|node| node_line(node, fleet)).collect();
    lines.push(String::new());
    let slots = fleet["slots"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut alike = BTreeMap::<_, Vec<&Value>>::new();
    for slot in slots {
        alike.entry([text(slot, "node"), text(slot, "state")]).or_default().push(slot);
    }
    for ([node, state], slots) in alike {
        let numbers: Vec<_> = slots.iter().filter_map(|slot| slot["slot"].as_u64()).collect();
        let epochs = || slots.iter().filter_map(|slot| slot["epoch"].as_u64());
        let epochs = range(epochs().min().unwrap_or_default(), epochs().max().unwrap_or_default());
        let noun = if numbers.len() == 1 { "slot" } else { "slots" };
        lines.push(format!("{node}  {state}  {noun} {}  epoch {epochs}", ranges(&numbers)));
    }
    let free = slots.iter().filter(|slot| text(slot, "state") == "free").count();
    let free = if free > 0 { format!(", {free} are free, and served by no node") } else { String::new() };
    lines.push(format!("{} slots move{free}", fleet["moving"]));
    lines
}

/// Numbers in their order, such as "0 to 2, 7".
fn ranges(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    runs.map(|run| range(run[0], run[run.len() - 1])).collect::<Vec<_>>().join(", ")
}

fn range(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

fn node_line(node: &Value, fleet: &Value) -> String {
    let (label, address) = (text(node, "node"), text(node, "address"));
    let asked = if node["node"] == fleet["node"] { " (asked)" } else { "" };
    let owns = &node["owns"];
    if let Some(why) = node["unreachable"].as_str() {
        return format!("{label}{asked}  {address}  {owns} slots  unreachable: {}", visible(why));
    }
    let why = node["notReady"].as_str().map(|why| format!("  not ready: {}", visible(why)));
    let renewed = node["unconfirmedMs"].as_u64().map(|ms| format!("  renewed {ms} ms ago"));
    let (phase, version) = (text(node, "phase"), text(node, "version"));
    let rest = renewed.into_iter().chain(why).collect::<String>();
    format!("{label}{asked}  {address}  {owns} slots  {phase}  version {version}{rest}")
}

impl Drain {
    /// Asks the node. If it is dropped, the node may have been asked.
    ///
    /// # Errors
    ///
    /// The node refuses or cannot be reached, or whether it was asked is unknown.
    pub async fn run(self) -> Result<ExitCode, Failure> {
        let body = self.node.as_ref().map_or(json!({}), |node| json!({"node": node}));
        let call = Call::post(&["cluster", "drain"]).of_server().body(body.to_string());
        BucketClient::new(&self.asked.target)?.call_without_answer(call, ACCEPTED).await?;
        let report = json!({"drains": self.node});
        print(self.asked.json, &report, || {
            let node = self.node.as_deref().unwrap_or("the node");
            vec![format!("{node} gives its slots to the others; \"lockhouse cluster\" shows how far it is")]
        })
    }
}
