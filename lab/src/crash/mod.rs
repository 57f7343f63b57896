//! `cargo xtask crash`: real clients at full speed against the real server, which is killed, and whose disk
//! fails, again and again.
//!
//! ```text
//!   crash ──SIGKILL, start──▶ lockhouse serve --store sqlite:… ◀── WebSocket, HTTP ── workers
//!     │  ├───backup; restore, while it is dead
//!     │  ├───strace: EIO
//!     │  └───SIGSTOP, SIGKILL─────────────────────────────────────────────────────────▶ │ processes of
//!     │                                                                                 │ 5 clients each
//!     └──────────────────────────────── one line per call, answer, loss ◀───────────────┘
//!              history ──▶ judge
//! ```

pub(crate) mod claims;
pub(crate) mod fleet;
pub(crate) mod http;
pub(crate) mod journal;
pub(crate) mod offline;
pub(crate) mod recorder;
mod server;
mod storm;
pub(crate) mod tally;
pub(crate) mod web;
pub(crate) mod worker;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use proofs::evidence;
use proofs::history::{self, Findings};
use xtask::workspace::tree;

use crate::{Verdict, serving};
use storm::Storm;
use tally::Counts;

/// Kill the server, or let its disk fail, while clients work, and judge what they wrote down
///
/// Worker processes of five clients each (three of Web Locks, one of offline locks, one of claims) work over
/// a few names. The server is killed at random moments and started anew; a kill counts only if something
/// durable was acknowledged in the 100 ms before it and another durable call was under way. Workers are
/// killed or stopped for longer than the lease, too. After one of three kills the server starts under strace,
/// which lets a write or a sync of the database's log, or of a checkpoint, end with EIO: the server ends by
/// itself; such a failure counts only if it left an outcome unknown. Backups are made and restored between
/// the kills, also twice and an older one after a newer one: what was told before a restore is not judged
/// after it, but tokens and epochs grow over all restores, and web locks stay held. Every client writes down
/// what it asks and what it is told (docs/histories.md), and that file is judged: nothing that was
/// acknowledged may be lost, no name may have two holders.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask crash --kills 20
  cargo xtask crash --kills 3 --seed 7 --history crash.jsonl
  cargo xtask check-history crash.jsonl

The last line is the verdict; exit 1 if any of its counts but the first two is not 0, exit 2 if the run could not be
judged or did too little to prove anything.
A history that has breaches is kept, and its place is told. The seed repeats what is asked and when kills are tried, not what the machine
makes of it.")]
pub(crate) struct Args {
    /// So many kills that count
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Worker processes, of five clients each
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(2..=64))]
    workers: u32,
    /// What is asked, and when kills are tried
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Keep the history in this file, breaches or not
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// The server's binary, instead of the one of this tree, which is built
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_BIN")]
    server: Option<PathBuf>,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The shortest that the server allows, as each recovery takes that long.
pub(crate) const LEASE: Duration = Duration::from_millis(500);
/// Names in each bucket, few enough that all clients are in each other's way.
const NAMES: usize = 16;
/// The kind of the records; `n/0` is the name of the first.
const KIND: &str = "n";
/// The bucket where Web Locks, offline locks and claims meet on the same names.
const MEETING: &str = "meeting";
/// The bucket that has no Web Locks.
const APART: &str = "apart";

pub(crate) fn run(args: &Args) -> Verdict {
    let started = Instant::now();
    let root = tree::root()?;
    let binary = serving::binary(args.server.as_deref(), &root)?;
    let folder = tempfile::Builder::new().prefix("lockhouse-crash-").tempdir()?;
    let path = folder.path().join("history.jsonl");
    let outcome = Storm::new(args, &binary, folder.path()).and_then(|storm| storm.run(folder.path()));
    let judged = outcome.and_then(|counts| Ok((history::judge_file(&path)?, counts)));
    if let Some(file) = &args.history {
        std::fs::copy(&path, file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let clean = matches!(&judged, Ok((judgement, _)) if judgement.breaches.is_empty());
    if !clean {
        println!("the history, the database and the server's log are kept in {}", folder.keep().display());
    }
    let (judgement, counts) = judged?;
    let seconds = started.elapsed().as_secs_f64();
    report(args, &judgement, &counts, seconds)
}

fn report(args: &Args, judgement: &Findings, counts: &Counts, seconds: f64) -> Verdict {
    judgement.show();
    if let Some(path) = &args.json {
        let mut json = judgement.json();
        json["kills"] = args.kills.into();
        json["seed"] = args.seed.into();
        json["clients"] = counts.done_by.len().into();
        json["seconds"] = seconds.round().into();
        json["counts"] = serde_json::to_value(counts)?;
        evidence::write(path, json)?;
    }
    println!("{} events in {seconds:.0} s; {}", judgement.events, summary(counts));
    if judgement.breaches.is_empty() {
        enough(args.kills as usize, counts)?;
    }
    println!("{} kills, {}", args.kills, judgement.verdict());
    Ok(judgement.breaches.is_empty())
}

fn summary(counts: &Counts) -> String {
    format!(
        "{} disk failures, {} web locks ({} reclaimed, {} lost, {} of them judged only until a pause), {} offline locks, {} claims, {} assignments, {} in each other's way, {} refused while recovering, {} outcomes unknown, {} backups restored",
        counts.disk_failures(),
        counts.sum(&["request"]),
        counts.reclaimed,
        counts.lost,
        counts.excused,
        counts.sum(&["lock"]),
        counts.sum(&["claim"]),
        counts.sum(&["finalize"]),
        counts.refusals("busy") + counts.refusals("claimed"),
        counts.refusals("recovering"),
        counts.unknown,
        counts.restored
    )
}

/// Did the run do enough to prove something?
fn enough(kills: usize, counts: &Counts) -> Result<()> {
    let at_work = counts.done_by.values().filter(|count| **count >= 10).count();
    let least = [
        ("clients that got something done", at_work, 8),
        ("web locks granted", counts.sum(&["request"]), 8 * kills),
        ("offline locks granted", counts.sum(&["lock"]), 40 * kills),
        ("claims granted", counts.sum(&["claim"]), 10 * kills),
        ("claims made final", counts.sum(&["finalize"]), 2 * kills),
        ("refusals by what others hold", counts.refusals("busy") + counts.refusals("claimed"), 20 * kills),
        ("refusals while the server recovered", counts.refusals("recovering"), kills),
        ("outcomes that a kill left unknown", counts.unknown, kills),
        ("web locks reclaimed after a restart", counts.reclaimed, kills.div_ceil(4)),
        ("backups restored", counts.restored, kills / 4),
        ("failures of the disk that left an outcome unknown", counts.disk_failures(), kills.div_ceil(4)),
    ];
    for (what, there, needed) in least {
        ensure!(
            there >= needed,
            "this run did too little to prove anything: {there} {what}, but at least {needed} are needed"
        );
    }
    let granted = counts.sum(&["request"]);
    ensure!(
        10 * counts.excused <= granted,
        "this run did too little to prove anything: of {granted} web locks, {} are judged only until their client paused",
        counts.excused
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts of a run with one kill that did enough.
    fn counts() -> Counts {
        let done = ["request", "lock", "claim", "finalize"].map(|call| (call.to_owned(), 1000));
        let refused = ["busy", "recovering"].map(|reason| (format!("lock: {reason}"), 1000));
        Counts {
            done_by: (0..8).map(|client| (client.to_string(), 10)).collect(),
            done: done.into(),
            refused: refused.into(),
            unknown: 10,
            lost: 200,
            excused: 100,
            reclaimed: 10,
            hand_offs: 10,
            buckets: [].into(),
            restored: 1,
            disk_failures: [("sync", 1)].into(),
        }
    }

    #[test]
    fn a_run_with_many_locks_that_are_excused_proves_nothing() {
        assert!(enough(1, &counts()).is_ok());
        let error = enough(1, &Counts { excused: 101, ..counts() }).unwrap_err().to_string();
        assert!(error.contains("of 1000 web locks, 101"), "{error}");
    }

    #[test]
    fn a_run_whose_disk_never_failed_proves_nothing() {
        let error = enough(1, &Counts { disk_failures: [].into(), ..counts() }).unwrap_err().to_string();
        assert!(error.contains("0 failures of the disk"), "{error}");
    }
}
