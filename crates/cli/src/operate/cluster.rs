//! `lockhouse cluster`

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lockhouse::store::PostgresStore;
use lockhouse_server::StoreChoice;
use serde_json::{Value, json};

use crate::cli::common::api::{BucketClient, Call};
use crate::cli::common::postgres::{PostgresArgs, store_of};
use crate::cli::common::print::{print, text, visible};
use crate::cli::common::target::Target;
use crate::cli::exit::{FAILURE, Failure, USAGE};

/// Show the nodes and slots of a fleet.
///
/// Any node can be asked. With authentication this needs the permission operate in all buckets.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse cluster
  lockhouse cluster --json --url https://b.example:7420
  lockhouse cluster drain                    # the node that is asked gives its slots to the others
  lockhouse cluster drain b.example:7420     # another node does
  lockhouse cluster restored --store postgres://lockhouse@db.example/locks

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the node may have been asked, or not
  75 not possible now")]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Cluster {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Command {
    Drain(Drain),
    Restored(Restored),
}

/// Let a node give all its slots to the others, before it is stopped or while it is looked at.
///
/// Locks stay with their holders. The node goes on to serve clients by handing on what they send, and is no
/// node of the fleet any more: it takes slots again after its next start. "lockhouse cluster" shows how far
/// it is.
#[derive(Debug, Args)]
struct Drain {
    /// The label of the node, by default the one that is asked
    #[arg(value_name = "NODE")]
    node: Option<String>,

    #[command(flatten)]
    common: Common,
}

/// Say that the database was put back to an earlier state by other means than lockhouse can see, such as the
/// files of a snapshot.
///
/// As the grants after that state are unknown, fencing tokens go on above all that can have been given, and
/// every slot waits for the length of a lease. Nodes that run learn of it at their next commit. What a
/// restore by PostgreSQL itself leaves behind, a new timeline, is noticed without this.
#[derive(Debug, Args)]
struct Restored {
    /// The store: postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "STORE", env = "LOCKHOUSE_STORE")]
    store: String,

    #[command(flatten)]
    postgres: PostgresArgs,
}

impl Cluster {
    pub(in crate::cli) async fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Some(Command::Drain(drain)) => drain.run().await,
            Some(Command::Restored(restored)) => restored.run().await,
            None => {
                let call = Call::get(&["cluster"]).of_server();
                let fleet = BucketClient::new(&self.common.target)?.call(call).await?;
                print(self.common.json, &fleet, || lines(&fleet))
            }
        }
    }
}

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
    async fn run(self) -> Result<ExitCode, Failure> {
        let body = self.node.as_ref().map_or(json!({}), |node| json!({"node": node}));
        let call = Call::post(&["cluster", "drain"]).of_server().body(body.to_string());
        BucketClient::new(&self.common.target)?.call(call).await?;
        let report = json!({"drains": self.node});
        print(self.common.json, &report, || {
            let node = self.node.as_deref().unwrap_or("the node");
            vec![format!("{node} gives its slots to the others; \"lockhouse cluster\" shows how far it is")]
        })
    }
}

impl Restored {
    async fn run(self) -> Result<ExitCode, Failure> {
        let StoreChoice::Postgres(url) = store_of(&self.store)? else {
            let why = "--store: must be postgres://USER@HOST/DATABASE; a database file is restored by \"lockhouse restore\"";
            return Err(Failure::new(USAGE, why));
        };
        let store = PostgresStore::open(url.as_str(), self.postgres.options()).await;
        let store = store.map_err(|error| Failure::new(FAILURE, error))?;
        store.declare_restored().await.map_err(|error| Failure::new(FAILURE, error))?;
        print(false, &Value::Null, || vec!["the database counts as restored".to_owned()])
    }
}
