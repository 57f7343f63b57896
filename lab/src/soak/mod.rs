//! `cargo xtask soak`: a crowd of connections that come and go, for a while, and whether the server gives
//! back all that it took for them.
//!
//! ```text
//!   soak ──start, measure──▶ lockhouse serve ◀── WebSocket ── soak-crowd (one process,
//!     └────────────ask──────────────────────────────────────▶ │           a task for each connection)
//! ```

pub(crate) mod crowd;
mod measure;
mod tally;
mod visitor;

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use proofs::evidence;
use xtask::workspace::tree;

use crate::Verdict;
use crate::serving::{self, Crowd, ServerProcess};
use measure::Sample;
use tally::RunTally;

/// Keep a crowd of connections busy, and see whether the server gives back all that it took for them
///
/// A process of clients holds so many WebSocket connections to the real server in another process. Each
/// connection asks for locks, holds, releases and gives up, goes by a close or a goodbye, breaks off, or
/// comes back to its session, and is followed by another. The server's memory is measured when all have come
/// and have been at work for a while, and again at the end, and compared with what as many as are there then
/// took at first; its descriptors before the first one has come, and after the last one has gone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask soak --connections 1000 --seconds 20
  cargo xtask soak --connections 5000 --seconds 60

The last line is the verdict; exit 1 if memory grows by more than 10 % and 8 MiB, a descriptor is left or anything went wrong, exit 2 if the run
could not be judged or did too little to prove anything.")]
pub(crate) struct Args {
    /// So many connections at once
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=12_000))]
    connections: u32,
    /// For so long between the two measurements
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// What the connections do
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// The server's binary, instead of the one of this tree, which is built
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_BIN")]
    server: Option<PathBuf>,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The time that a session outlives its connection.
const LEASE: Duration = Duration::from_secs(5);

/// In this time all connections of a large crowd come; a small one takes less.
const COMING_S: usize = 20;

/// So many connections come in a second, however small the crowd is.
const LEAST_PER_SECOND: usize = 100;

/// Memory may grow by this part and this much between the two measurements; what leaks grows with every
/// visit.
const GROWTH: f64 = 0.10;
const GROWTH_KIB: u64 = 8 << 10;

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    measure::check_open_files(args.connections as usize)?;
    let binary = serving::binary(args.server.as_deref(), &root)?;
    let folder = tempfile::Builder::new().prefix("lockhouse-soak-").tempdir()?;
    let result = soak(args, &binary, folder.path());
    if !matches!(&result, Ok(soaked) if soaked.holds()) {
        println!("the server's log is kept in {}", folder.keep().display());
    }
    let soaked = result?;
    if let Some(path) = &args.json {
        evidence::write(path, soaked.json(args))?;
    }
    for sample in &soaked.tally.samples {
        println!("error: {sample}");
    }
    println!("{}", soaked.summary());
    if soaked.holds() {
        soaked.enough(args)?;
    }
    println!("{}", soaked.verdict());
    Ok(soaked.holds())
}

fn soak(args: &Args, binary: &Path, folder: &Path) -> Result<Soaked> {
    let lease = format!("{}s", LEASE.as_secs());
    let server = ServerProcess::start(binary, folder, &["--lease", &lease])?;
    let empty = measure::sample(server.pid())?;
    let mut crowd = start_crowd(args, &server)?;
    let connections = args.connections as usize;
    let start = Instant::now();
    let patience = Duration::from_secs(COMING_S as u64 * 10);
    while crowd.ask()?.came < connections {
        ensure!(start.elapsed() < patience, "not all connections came within {} s", patience.as_secs());
        sleep(Duration::from_millis(500));
    }
    println!("all have come after {:.0} s", start.elapsed().as_secs_f64());
    // Longer than a visit (10 s) and a lease, so that as many sessions end as begin.
    sleep((3 * LEASE).max(Duration::from_secs(u64::from(args.seconds) / 4)));
    let (at_first, before) = (crowd.ask()?, measure::sample(server.pid())?);
    sleep(Duration::from_secs(args.seconds.into()));
    let (at_last, after) = (crowd.ask()?, measure::sample(server.pid())?);
    let tally = crowd.end()?;
    let left = descriptors_left(&server, empty.descriptors)?;
    Ok(Soaked { empty, before, after, left, present: [at_first.present, at_last.present], tally })
}

/// The result of a soak.
struct Soaked {
    empty: Sample,
    before: Sample,
    after: Sample,
    /// Descriptors more than at first, once all have gone.
    left: isize,
    /// Connections at the two measurements.
    present: [usize; 2],
    tally: RunTally,
}

impl Soaked {
    /// The memory that was needed, at the first measurement, for as many connections as there are at the end.
    fn expected_kib(&self) -> f64 {
        let taken = self.before.rss_kib.saturating_sub(self.empty.rss_kib) as f64;
        self.empty.rss_kib as f64 + taken * self.present[1] as f64 / self.present[0].max(1) as f64
    }

    /// By how many per cent memory has grown beyond that.
    fn growth(&self) -> f64 {
        (self.after.rss_kib as f64 / self.expected_kib() - 1.0) * 100.0
    }

    fn holds(&self) -> bool {
        let grown_kib = self.after.rss_kib as f64 - self.expected_kib();
        let leaks = self.growth() > GROWTH * 100.0 && grown_kib > GROWTH_KIB as f64;
        !leaks && self.left == 0 && self.tally.errors == 0
    }

    fn verdict(&self) -> String {
        format!("memory {:+.1} %, descriptors {:+}, {} errors", self.growth(), self.left, self.tally.errors)
    }

    fn summary(&self) -> String {
        let RunTally { visits, granted, refused, given_up, cut, resumed, .. } = &self.tally;
        format!(
            "{} MiB before all came, {} MiB with {} connections, {} MiB at the end with {}; \
             {visits} visits, {granted} locks, {refused} refused, {given_up} given up, {cut} cut off, {resumed} resumed",
            self.empty.rss_kib >> 10,
            self.before.rss_kib >> 10,
            self.present[0],
            self.after.rss_kib >> 10,
            self.present[1],
        )
    }

    fn json(&self, args: &Args) -> serde_json::Value {
        serde_json::json!({
            "connections": args.connections,
            "seconds": args.seconds,
            "seed": args.seed,
            "rssKib": { "empty": self.empty.rss_kib, "before": self.before.rss_kib, "after": self.after.rss_kib },
            "present": self.present,
            "growthPercent": (self.growth() * 10.0).round() / 10.0,
            "descriptorsLeft": self.left,
            "counts": self.tally,
        })
    }

    /// Did the run do enough to prove something?
    fn enough(&self, args: &Args) -> Result<()> {
        let connections = args.connections as usize;
        let seconds = args.seconds as usize;
        let least = [
            ("connections at the first measurement", self.present[0], connections * 9 / 10),
            ("connections at the last measurement", self.present[1], connections * 9 / 10),
            ("descriptors with them", self.before.descriptors, connections * 9 / 10),
            ("locks granted", self.tally.granted as usize, connections * seconds / 10),
            ("visits", self.tally.visits as usize, connections + connections * seconds / 60),
            ("connections cut off", self.tally.cut as usize, connections * seconds / 500),
            ("sessions resumed", self.tally.resumed as usize, connections * seconds / 500),
        ];
        for (what, there, needed) in least {
            ensure!(
                there >= needed,
                "this run did too little to prove anything: {there} {what}, but at least {needed} are needed"
            );
        }
        Ok(())
    }
}

/// The number of descriptors beyond these that the server has after the time to close all.
fn descriptors_left(server: &ServerProcess, before: usize) -> Result<isize> {
    let deadline = Instant::now() + 2 * LEASE;
    loop {
        let left = measure::descriptors(server.pid())?.cast_signed() - before.cast_signed();
        if left == 0 || Instant::now() > deadline {
            return Ok(left);
        }
        sleep(Duration::from_millis(100));
    }
}

fn start_crowd(args: &Args, server: &ServerProcess) -> Result<Crowd<RunTally>> {
    let per_second = (args.connections as usize).div_ceil(COMING_S).max(LEAST_PER_SECOND);
    Crowd::start([
        "soak-crowd".to_owned(),
        format!("--address={}", server.address),
        format!("--visitors={}", args.connections),
        format!("--seed={}", args.seed),
        format!("--per-second={per_second}"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soaked() -> Soaked {
        let sample = |rss_kib| Sample { rss_kib, descriptors: 1010 };
        let tally = RunTally { visits: 3000, granted: 10_000, cut: 100, resumed: 100, ..RunTally::default() };
        Soaked {
            empty: Sample { rss_kib: 10_000, descriptors: 10 },
            before: sample(100_000),
            after: sample(101_000),
            left: 0,
            present: [1000, 1000],
            tally,
        }
    }

    fn args() -> Args {
        Args { connections: 1000, seconds: 20, seed: 1, server: None, json: None }
    }

    #[test]
    fn resources_that_are_not_returned_and_errors_fail() {
        assert!(soaked().holds());
        assert_eq!(soaked().verdict(), "memory +1.0 %, descriptors +0, 0 errors");
        let mut grown = soaked();
        grown.after.rss_kib = 120_000;
        assert!(!grown.holds());
        // A visitor that only came back in time is no leak, and a missing visitor hides none.
        grown.present = [1000, 1200];
        assert!(grown.holds());
        assert!(!Soaked { present: [1000, 800], ..soaked() }.holds());
        assert!(!Soaked { left: 1, ..soaked() }.holds());
        let mut failed = soaked();
        failed.tally.errors = 1;
        assert!(!failed.holds());
    }

    #[test]
    fn a_run_that_did_too_little_proves_nothing() {
        assert!(soaked().enough(&args()).is_ok());
        let error = Soaked { present: [1000, 500], ..soaked() }.enough(&args()).unwrap_err().to_string();
        assert!(error.contains("500 connections at the last measurement"), "{error}");
        let mut idle = soaked();
        idle.tally.granted = 100;
        assert!(idle.enough(&args()).is_err());
    }
}
