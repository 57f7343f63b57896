//! Fleets of real servers: `cargo xtask local-cluster`, one to look at, `cargo xtask failover`, and
//! `cargo xtask js-fleet`.

mod away;
mod drain;
pub(crate) mod failover;
pub(crate) mod nodes;
mod pause;
#[allow(clippy::unwrap_used, reason = "it stops where no PostgreSQL can be started")]
#[path = "../../../tests/support/postgres.rs"]
pub(crate) mod postgres;
pub(crate) mod suite;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::spawn;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use xtask::Verdict;
use xtask::workspace::{cargo, setup, shell, tree};

use self::nodes::{NodeLine, NodeServer, Nodes};

/// Start a fleet of servers over a PostgreSQL of its own, show what moves, and stop all at Ctrl-C
///
/// Kill a node, or stop and continue it (kill -STOP, kill -CONT), to see the others take over. \"lockhouse
/// cluster\" shows the fleet, and \"lockhouse run\" takes several URLs.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=26))]
    nodes: u8,
    /// How many slots the buckets are spread over
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    slots: u16,
    /// How long a node may be silent before the others take its slots
    #[arg(long, value_name = "DURATION", default_value = "3s")]
    slot_lease: String,
    /// How long a silent client keeps its locks
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    lease: String,
}

/// What happens within this time is shown in one line.
const GATHERING: Duration = Duration::from_millis(250);

pub(crate) fn run(args: &Args) -> Verdict {
    setup::postgres()?;
    let program = cargo::program(&tree::root()?, "lockhouse")?;
    let interrupts = shell::interrupts();
    let (sender, lines) = channel();
    let mut nodes = Nodes::start(&program, args.slots)?;
    println!("PostgreSQL: {}", nodes.store());
    for number in 0..args.nodes {
        let label = char::from(b'a' + number).to_string();
        let options = ["--slot-lease", &args.slot_lease, "--lease", &args.lease];
        let node = nodes.start_node(&label, &options, sender.clone())?;
        println!("node {label}: {} (process {})", node.url, node.id());
    }
    drop(sender);
    let urls: Vec<&str> = nodes.nodes().map(|node| &*node.url).collect();
    println!("any of them serves any client:\n\n  export LOCKHOUSE_URL={}\n", urls.join(","));
    println!("  {0} cluster\n  {0} run report -- sleep 60\n\nCtrl-C stops all of it.", program.display());
    let shows = spawn(move || show(&lines));
    // The handler keeps its sender.
    _ = interrupts.recv();
    println!("stopping: each node gives its slots to the others");
    nodes.stop();
    // It has ended with the last node.
    _ = shows.join();
    Ok(true)
}

/// Prints what the nodes say of slots, and of each other.
fn show(lines: &Receiver<NodeLine>) {
    let begun = Instant::now();
    let mut gathered: BTreeMap<(String, String), Vec<u16>> = BTreeMap::new();
    let mut until = None;
    loop {
        let wait =
            until.map_or(Duration::MAX, |until: Instant| until.saturating_duration_since(Instant::now()));
        let line = match lines.recv_timeout(wait) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return print(begun, &mut gathered),
        };
        match line {
            Some(NodeLine { label, what, slot: Some(slot) }) => {
                gathered.entry((label, what)).or_default().push(slot);
                until.get_or_insert_with(|| Instant::now() + GATHERING);
            }
            Some(NodeLine { label, what, slot: None }) => {
                print(begun, &mut gathered);
                until = None;
                println!("{:7.1} s  {label}: {what}", begun.elapsed().as_secs_f64());
            }
            None => {
                print(begun, &mut gathered);
                until = None;
            }
        }
    }
}

fn print(begun: Instant, gathered: &mut BTreeMap<(String, String), Vec<u16>>) {
    for ((label, what), mut slots) in std::mem::take(gathered) {
        slots.sort_unstable();
        let runs = slots.chunk_by(|one, next| *next == one + 1);
        let runs = runs.map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        });
        let list = runs.collect::<Vec<_>>().join(" ");
        println!("{:7.1} s  {label}: {what}: {list}", begun.elapsed().as_secs_f64());
    }
}

impl Nodes {
    fn stop(&mut self) {
        // One that was killed by hand has ended.
        self.nodes().for_each(NodeServer::begin_to_end);
        self.end();
    }
}
