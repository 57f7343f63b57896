//! `cargo xtask sim`: lives of the server one after the other, over one disk, with clients that mix
//! everything, while everything fails by a seed. All answers and notices to the clients are judged like any
//! history.
//!
//! ```text
//!   owner clients, ─▶ house, buckets, outboxes, ─▶ DiskLink ─▶ FaultStore ─▶ Ledger ─▶ MemoryStore
//!   claim clients,    pipeline (the real ones,                                 │
//!   workers           on stopped time)                                         └─▶ announced before durable?
//!     │                    ▲
//!     │    web clients ─▶ link ─▶ HTTP, WebSocket, hello, session (the real ones, too)
//!     ▼        ▼
//!   Journal: asked, answered, lost ──▶ the judge of histories
//! ```

mod clients;
mod disk;
mod ending;
mod fault_plan;
mod faults;
pub mod fleet;
pub mod journal;
mod ledger;
mod look;
pub mod run;
mod schedule;
mod server;
pub mod tally;

use std::path::PathBuf;

use crate::Verdict;

const HELP: &str = "\
A schedule is one small world, drawn by its number and the seed: clerks with business transactions, buyers with claims, workers in the
server's process and tabs far away want the same few names, at least 200 times, while at least 3 faults happen: the process is killed with
a commit under way, another process takes the store, answers and batches are lost, late or refused, clocks jump, processes and clients stand
still, links are slow, stalled and broken off, backups are restored, also twice and an older one after a newer one. Time is simulated, so that nothing waits, and the lease clock ticks late. The tabs speak the protocol with the
server's own sessions. In the end everything is mended, and everybody must get an answer.

What the clients were told is judged as `cargo xtask check-history` does it; besides, nobody may be told what the disk does not have yet, sleep
on for ever, lose a session that still counts on its lease, keep one for long after its client has gone, whatever the store does, or leave something behind. What was told before a restore is not judged after
it; but tokens and epochs grow over all restores, and no bucket uses up more tokens than it gives.

  cargo xtask sim --schedules 100000 --seed 1     many schedules; the last line is the total
  cargo xtask sim --seed 1 --only 4711            one of them, with all that happens: faults, questions, answers
  cargo xtask sim --fleet                         several nodes over a model of a database that fails over
  cargo xtask sim --seed 1 --only 4711 --history FILE && cargo xtask check-history FILE";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// How many schedules to play
    #[arg(long, default_value_t = 10_000)]
    schedules: u64,
    /// Where the random numbers start
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play only the schedule with this number, and tell everything that happens in it
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// How many threads play; the result is the same
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// With --only: write what the clients were told to this file, for `cargo xtask check-history`
    #[arg(long, value_name = "FILE", requires = "only")]
    history: Option<PathBuf>,
    /// Play a fleet: several nodes over a model of a database that fails over
    #[arg(long)]
    fleet: bool,
    /// With --fleet: give the model a flaw, which the run must find
    #[arg(long, value_name = "FLAW", requires = "fleet")]
    plant: Option<fleet::Plant>,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: &Args) -> Verdict {
    let cast = if args.fleet { Cast::Fleet(args.plant) } else { Cast::Server };
    match args.only {
        Some(number) => run::only(args, cast, number),
        None => run::all(args, cast),
    }
}

/// What plays.
#[derive(Clone, Copy, Debug)]
pub enum Cast {
    /// Lives of one server.
    Server,
    /// Several nodes, over a database with this flaw.
    Fleet(Option<fleet::Plant>),
}

impl Cast {
    fn play(self, seed: u64, with_notes: bool) -> Result<journal::Written, String> {
        match self {
            Self::Server => schedule::play(seed, with_notes),
            Self::Fleet(plant) => fleet::play(seed, with_notes, plant),
        }
    }

    /// The option of the command line.
    fn option(self) -> &'static str {
        match self {
            Self::Server => "",
            Self::Fleet(_) => " --fleet",
        }
    }

    /// The least commands and faults of a schedule.
    fn least(self) -> (u64, u64) {
        match self {
            Self::Server => (schedule::COMMANDS, schedule::FAULTS),
            Self::Fleet(_) => (fleet::LEAST_COMMANDS, fleet::LEAST_FAULTS),
        }
    }

    /// The classes of events that have to occur in a run.
    fn expected(self) -> &'static [&'static str] {
        match self {
            Self::Server => tally::EXPECTED,
            Self::Fleet(_) => fleet::EXPECTED,
        }
    }
}
