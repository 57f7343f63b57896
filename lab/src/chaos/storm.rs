//! The run: faults one after the other, and after each of them the time until all goes on.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use proofs::history::record::What;
use random::Random;
use tokio::runtime::Runtime;

use super::databases::Databases;
use super::faults::Kind;
use super::faults::clocks::{self, Clocks};
use super::network::{WORKERS, within};
use super::nodes::{Nodes, key_file, urls};
use super::probe::Probes;
use super::runs::{ExitCodes, Runs};
use super::worker::CLIENTS;
use super::{Args, history_in};
use crate::cluster::postgres;
use crate::crash::fleet::{Starting, Workers};
use crate::crash::http::HttpCaller;
use crate::crash::journal::HistoryWriter;
use crate::crash::recorder::now;
use crate::crash::tally::Counts;
use crate::fence::Fence;

/// How often each kind of fault has hit.
pub(super) type Hits = BTreeMap<Kind, usize>;

/// The faults of a run, and what clients did meanwhile.
pub(super) struct Events {
    pub(super) hits: Hits,
    pub(super) counts: Counts,
    pub(super) codes: ExitCodes,
    /// Each of them, in words.
    pub(super) faults: Vec<String>,
}

pub(super) struct Storm {
    pub(super) journal: Arc<HistoryWriter>,
    pub(super) databases: Databases,
    pub(super) nodes: Nodes,
    pub(super) fleet: Workers,
    pub(super) runtime: Runtime,
    pub(super) random: Random,
    pub(super) clocks: Clocks,
    pub(super) probes: Probes,
    runs: Runs,
    pub(super) key: String,
    kinds: Vec<Kind>,
    seconds: u64,
    pub(super) large_rows: u32,
    /// The database of the fence, which never fails.
    _guarded: postgres::Server,
}

/// What has to happen between two faults: so many grants of each discipline,
const GRANTS: usize = 50;
/// and so many web locks that are handed to a client that waited,
const HAND_OFFS: usize = 10;
/// within this time after all slots have granted.
const PATIENCE: Duration = Duration::from_secs(40);

impl Storm {
    pub(super) fn new(args: &Args, server: &Path, folder: &Path) -> Result<Self> {
        let journal = Arc::new(HistoryWriter::create(&history_in(folder))?);
        let runtime = Runtime::new()?;
        let guarded = postgres::Server::start_apart(&[]);
        runtime.block_on(async { Fence::connect(guarded.folder()).await?.make().await })?;
        let databases = Databases::start(args.large_rows)?;
        let clocks = Clocks::right()?;
        let nodes = Nodes::start(server, databases.store(), folder)?;
        journal.write_now(What::ServerStarted { epoch: "1".to_owned() });
        let key = std::fs::read_to_string(key_file())?;
        let starting = starting(guarded.folder());
        let fleet = Workers::start(starting, args.seed, WORKERS.len(), journal.clone())?;
        let probes = Probes::new(key.clone(), journal.clone());
        let runs = Runs::begin(server, args.seed);
        let mut random = Random::new(args.seed);
        let mut kinds = match &args.some {
            Some(text) => Kind::some(text),
            None if args.kinds.is_empty() => Kind::ALL.to_vec(),
            None => args.kinds.clone(),
        };
        for at in (1..kinds.len()).rev() {
            kinds.swap(at, random.below(at + 1));
        }
        let (seconds, large_rows) = (args.seconds, args.large_rows);
        Ok(Self {
            journal,
            databases,
            nodes,
            fleet,
            runtime,
            random,
            clocks,
            probes,
            runs,
            key,
            kinds,
            seconds,
            large_rows,
            _guarded: guarded,
        })
    }

    pub(super) fn run(mut self) -> Result<Events> {
        let begun = Instant::now();
        let (mut hits, mut faults) = (Hits::new(), Vec::new());
        self.goes_on(begun)?;
        for nth in 0.. {
            let is_missing = |kind: &&Kind| !hits.contains_key(kind);
            let missing: Vec<&Kind> = self.kinds.iter().filter(is_missing).collect();
            let elapsed = begun.elapsed().as_secs();
            if elapsed >= self.seconds && missing.is_empty() {
                break;
            }
            ensure!(
                elapsed < (4 * self.seconds.max(MOST)).max(MOST * self.kinds.len() as u64),
                "this run did too little to prove anything: after {elapsed} s no fault of the kind {:?} has hit",
                missing[0]
            );
            // What is missing comes first once the time is over.
            let kind = match missing.first() {
                Some(kind) if elapsed >= self.seconds => **kind,
                _ => self.kinds[nth % self.kinds.len()],
            };
            let before = self.counts();
            let from = Instant::now();
            // Those of before do not count.
            _ = self.nodes.slots_taken();
            let what = self.fault(kind)?;
            let after = self.counts();
            let failed = failures(&after) - failures(&before);
            let lasted = from.elapsed().as_secs_f64();
            let has_hit = what.has_hit.unwrap_or(failed > 0);
            if has_hit {
                *hits.entry(kind).or_default() += 1;
            }
            let back = self.goes_on(Instant::now())?;
            let text = format!(
                "{:6.1} s  {kind}: {} for {lasted:.1} s; {failed} calls failed, {} slots were taken; all goes on after {back:.1} s{}",
                (from - begun).as_secs_f64(),
                what.text,
                self.nodes.slots_taken(),
                if has_hit { "" } else { ", does not count" },
            );
            println!("{text}");
            faults.push(text.trim_start().to_owned());
        }
        let (counts, codes) = self.finish()?;
        Ok(Events { hits, counts, codes, faults })
    }

    /// Waits until every slot grants again, and all disciplines get on; how long that took, in seconds.
    pub(super) fn goes_on(&mut self, since: Instant) -> Result<f64> {
        self.nodes.check()?;
        self.runs.check()?;
        self.runtime.block_on(self.probes.all_grant())?;
        self.runs.is_quiet(true);
        let took = since.elapsed().as_secs_f64();
        let before = self.counts();
        let begun = Instant::now();
        loop {
            let now = self.counts();
            let more = |call: &str| now.sum(&[call]) - before.sum(&[call]);
            let grants = ["request", "lock", "claim"].map(more);
            let hand_offs = now.hand_offs - before.hand_offs;
            if grants.iter().all(|count| *count >= GRANTS) && hand_offs >= HAND_OFFS {
                self.runs.is_quiet(false);
                return Ok(took);
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "after a fault too little goes on: {} web locks, {} offline locks and {} claims in {PATIENCE:?}, {hand_offs} handed on",
                grants[0],
                grants[1],
                grants[2]
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.journal.tally(|tally| tally.counts.clone())
    }

    /// Ends the clients and reads what the fleet still knows.
    fn finish(mut self) -> Result<(Counts, ExitCodes)> {
        let codes = self.runs.end()?;
        self.fleet.end()?;
        let counts = self.counts();
        let http = HttpCaller::new(&urls(), Some(&self.key))?;
        for bucket in &counts.buckets {
            let began = now();
            let found = self
                .runtime
                .block_on(http.look(bucket, ""))
                .map_err(|reply| anyhow!("the last read-out failed: {reply:?}"))?;
            self.journal.write_now(What::Readout { bucket: bucket.clone(), began, found });
        }
        self.journal.close()?;
        Ok((counts, codes))
    }

    pub(super) fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = to.saturating_sub(from).as_micros() as usize;
        from + Duration::from_micros(self.random.below(span + 1) as u64)
    }
}

/// A run of a few seconds has as long as this for each kind.
const MOST: u64 = 40;

/// Calls that came to nothing because of a fault.
pub(super) fn failures(counts: &Counts) -> usize {
    counts.unknown + counts.lost + counts.refusals("unavailable") + counts.refusals("recovering")
}

/// Workers in networks of their own.
fn starting(fence: &Path) -> Starting {
    let program = std::env::current_exe().context("the program has no path");
    let spawn = move |place: usize, arguments: &[&str]| {
        let program = program.as_ref().map_err(|error| anyhow!("{error}"))?;
        let host = WORKERS[place % WORKERS.len()];
        within(host, || {
            let mut command = Command::new(program);
            command.env(clocks::VARIABLE, clocks::file(host));
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            command.spawn().context("cannot start a worker")
        })
    };
    let mut arguments = vec!["chaos-worker".to_owned()];
    arguments.extend(["--key".to_owned(), key_file().display().to_string()]);
    arguments.extend(["--fence".to_owned(), fence.display().to_string()]);
    arguments.extend(urls().into_iter().flat_map(|url| ["--url".to_owned(), url]));
    Starting { spawn: Box::new(spawn), arguments, clients: &CLIENTS }
}
