//! `cargo xtask scale`: what fleets of different sizes ask of their database, and how soon they go on after a
//! loss, in virtual time.
//!
//! ```text
//!   client ─▶ gateway ─▶ port, house, pipeline ─▶ Committer ─┐
//!                        (the real ones)                     ├─▶ Database
//!                        FleetNode, Membership ──────────────┘   a model, whose statements are counted
//! ```
//!
//! Each node has a runtime and a clock of its own. All that happens in a step of virtual time happens at its
//! end: first the database, then the nodes, then the clients.

mod client;
pub mod figures;
mod node;
pub mod run;
mod session;
mod tally;
mod world;

use std::path::PathBuf;
use std::time::Instant as Stopwatch;

use serde_json::json;

use crate::{Verdict, evidence};

const HELP: &str = "\
Every fleet starts over an empty database, with the default times: a slot lease of 3 s, a lease of 10 s, 256 slots. Clients come, each with ten
Web Locks. Then nothing happens for a while; another node joins; every connection ends; the nodes of one of three racks are gone at once, with
some of the clients. The URLs of a client name nodes of all racks in turn. A message takes about 2 ms, as does a statement of the database, whatever it does: the figures say how many there are, and
how long the parts of the fleet wait for each other, not how long a processor takes for them.

A run fails if a client that comes back in time loses a lock, or if a lock is granted on which another client still relies.

  cargo xtask scale                              3, 12 and 48 nodes with a million locks
  cargo xtask scale --nodes 5 --locks 10000      one fleet, in some seconds";

/// Run fleets in virtual time, and count what they ask of their database and how soon they recover
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// How many nodes, one fleet after the other
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [3, 12, 48])]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=200))]
    nodes: Vec<u16>,
    /// How many locks the clients of each fleet have
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    locks: u32,
    /// Where the random numbers start
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Write the figures to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: &Args) -> Verdict {
    let started = Stopwatch::now();
    let mut fleets = Vec::new();
    for nodes in args.nodes.iter().copied().map(usize::from) {
        match run::run(nodes, args.locks as usize, args.seed) {
            Ok(figures) => fleets.push((nodes, figures)),
            Err(why) => {
                println!("{nodes} nodes, {} locks, seed {}: {why}", args.locks, args.seed);
                return Ok(false);
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    print!("{}", figures::table(&fleets));
    if let Some(path) = &args.json {
        let (locks, seed) = (args.locks, args.seed);
        let fleets = figures::to_json(&fleets);
        evidence::write(path, json!({"locks": locks, "seed": seed, "fleets": fleets, "seconds": seconds}))?;
    }
    println!(
        "{} fleets with {} locks of seed {} in {seconds:.1} s; 0 locks lost",
        fleets.len(),
        args.locks,
        args.seed
    );
    Ok(true)
}
