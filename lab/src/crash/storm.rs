//! Server, clients, and what befalls them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use proofs::history::record::{Found, What};
use random::Random;

use super::fleet::{Starting, Workers};
use super::http::HttpCaller;
use super::journal::HistoryWriter;
use super::recorder::now;
use super::server::{DISK_FAILURES, DiskFailure, Server};
use super::tally::{Counts, RunTally};
use super::{APART, Args, LEASE, MEETING};

pub(super) struct Storm {
    server: Server,
    fleet: Workers,
    journal: Arc<HistoryWriter>,
    random: Random,
    kills: u32,
    lives: u32,
    backups: Backups,
}

/// The backups of the server, and what became of them.
#[derive(Debug, Default)]
struct Backups {
    /// The oldest first.
    files: Vec<PathBuf>,
    restores: usize,
    /// The one that was restored last.
    last: usize,
    /// The highest epoch that was certainly taken.
    epoch: u64,
}

/// One of so many kills comes right after a backup was made, and one before a backup is restored.
const KILLS_PER_RESTORE: u32 = 3;

/// After one of so many kills the server starts over a disk that will fail.
const KILLS_PER_DISK_FAILURE: u32 = 3;
/// A disk that has not failed by then is given up. A checkpoint comes after a thousand pages.
const LONGEST_WAIT_FOR_A_FAILURE: Duration = Duration::from_secs(10);

/// A server is killed at some moment from here, when the lines about the last kill have come,
const SHORTEST_LIFE: Duration = Duration::from_millis(150);
/// to here: within its recovery, or well after it.
const LONGEST_LIFE: Duration = Duration::from_millis(1500);
/// The time that all clients work on after the last kill.
const AFTERMATH: Duration = Duration::from_millis(1500);
/// The longest that a worker is stopped; the shortest is a lease.
const LONGEST_STOP: Duration = Duration::from_millis(1000);

impl Storm {
    pub(super) fn new(args: &Args, binary: &Path, folder: &Path) -> Result<Self> {
        let journal = Arc::new(HistoryWriter::create(&folder.join("history.jsonl"))?);
        let server = Server::start(binary, folder)?;
        let fleet =
            Workers::start(Starting::at(&server.url()), args.seed, args.workers as usize, journal.clone())?;
        let (random, kills, backups) = (Random::new(args.seed), args.kills, Backups::default());
        let mut storm = Self { server, fleet, journal, random, kills, lives: 0, backups };
        storm.note_start();
        Ok(storm)
    }

    pub(super) fn run(mut self, folder: &Path) -> Result<Counts> {
        let (mut counted, mut tried) = (0, 0);
        // All clients have to have connected for the first kill to count.
        thread::sleep(AFTERMATH);
        while counted < self.kills {
            ensure!(
                tried < 2 * self.kills + 10,
                "this run did too little to prove anything: only {counted} of {tried} kills count"
            );
            tried += 1;
            let life = self.between(SHORTEST_LIFE, LONGEST_LIFE);
            let mut befell = self.let_live(life, tried)?;
            if tried % KILLS_PER_RESTORE == 1 {
                self.back_up(folder)?;
            }
            self.kill()?;
            if tried % KILLS_PER_RESTORE == 2 {
                let nth = self.backups.next();
                self.restore(nth)?;
                befell.push_str(&format!("; backup {} was restored", nth + 1));
            }
            let failure = (tried % KILLS_PER_DISK_FAILURE == 1).then(|| self.next_disk_failure());
            self.start_again(failure)?;
            thread::sleep(SHORTEST_LIFE);
            let met = self.journal.tally(RunTally::met).context("the kill was not noted")?;
            counted += u32::from(met.counts());
            println!(
                "kill {counted:>3} of {}: after {:>4} ms, {:>3} acknowledged in the last 100 ms, {:>2} under way{}{befell}",
                self.kills,
                (SHORTEST_LIFE + life).as_millis(),
                met.acknowledged,
                met.in_flight,
                if met.counts() { "" } else { ", does not count" },
            );
            if let Some(failure) = failure {
                self.live_until_the_disk_fails(failure)?;
            }
        }
        thread::sleep(AFTERMATH);
        self.finish()
    }

    /// Lets all clients work for this time, unless something befalls a worker.
    fn let_live(&mut self, life: Duration, nth: u32) -> Result<String> {
        let worker = self.random.below(1 << 16);
        // Against the turn of the restores, so that everything befalls together.
        match nth / 2 % 3 {
            1 => {
                // Into the recovery, where it comes too late to bring its locks back.
                let stop = self.between(LEASE, LONGEST_STOP);
                self.fleet.stop(worker)?;
                thread::sleep(life.min(stop));
                self.fleet.go_on(worker)?;
                thread::sleep(life.saturating_sub(stop));
                Ok("; a worker was stopped".to_owned())
            }
            2 => {
                let before = self.between(Duration::ZERO, life);
                thread::sleep(before);
                self.fleet.kill(worker)?;
                thread::sleep(life - before);
                Ok("; a worker was killed".to_owned())
            }
            _ => {
                thread::sleep(life);
                Ok(String::new())
            }
        }
    }

    fn back_up(&mut self, folder: &Path) -> Result<()> {
        let file = folder.join(format!("backup-{}.db", self.backups.files.len() + 1));
        self.server.back_up(&file)?;
        self.backups.files.push(file);
        Ok(())
    }

    /// Puts that backup in the place of the database of the dead server.
    fn restore(&mut self, nth: usize) -> Result<()> {
        let restored = self.server.restore(&self.backups.files[nth])?;
        let at = now();
        self.journal.write(at, What::Restored { above: restored.tokens_above });
        ensure!(
            restored.epochs_above >= self.backups.epoch,
            "epochs go on above {}, but {} was taken",
            restored.epochs_above,
            self.backups.epoch
        );
        self.backups.epoch = restored.epochs_above;
        Ok(())
    }

    /// SIGKILL.
    fn kill(&mut self) -> Result<()> {
        let at = now();
        self.journal.tally(|tally| tally.killed(at));
        self.server.kill()?;
        self.journal.write_now(What::ServerKilled);
        Ok(())
    }

    /// Another life over the file that there is.
    fn start_again(&mut self, failure: Option<&DiskFailure>) -> Result<()> {
        let pause = self.between(Duration::ZERO, Duration::from_millis(60));
        thread::sleep(pause);
        self.server.start_again(failure.map(|failure| (failure, &mut self.random)))?;
        self.note_start();
        Ok(())
    }

    /// The places at which the disk fails come in turn.
    fn next_disk_failure(&self) -> &'static DiskFailure {
        let so_far = self.journal.tally(|tally| tally.counts.disk_failures());
        &DISK_FAILURES[so_far % DISK_FAILURES.len()]
    }

    /// The server ends by itself, and another life begins over what its disk has. The failure counts if a
    /// client does not know an outcome because of it.
    fn live_until_the_disk_fails(&mut self, failure: &DiskFailure) -> Result<()> {
        let unknown = self.journal.tally(|tally| tally.counts.unknown);
        let begun = Instant::now();
        let ended = loop {
            match self.server.ended()? {
                None if begun.elapsed() < LONGEST_WAIT_FOR_A_FAILURE => {
                    thread::sleep(Duration::from_millis(5));
                }
                ended => break ended,
            }
        };
        let Some(status) = ended else {
            println!("no {} has failed", failure.what);
            self.kill()?;
            return self.start_again(None);
        };
        ensure!(status.code() == Some(1), "the {} failed, and the server ended with {status}", failure.what);
        self.journal.write_now(What::ServerKilled);
        self.start_again(None)?;
        thread::sleep(SHORTEST_LIFE);
        let unknown = self.journal.tally(|tally| {
            let unknown = tally.counts.unknown - unknown;
            if unknown > 0 {
                *tally.counts.disk_failures.entry(failure.what).or_default() += 1;
            }
            unknown
        });
        println!(
            "a {} failed after {} ms: the server ended, {unknown} outcomes unknown",
            failure.what,
            begun.elapsed().as_millis()
        );
        Ok(())
    }

    fn note_start(&mut self) {
        self.lives += 1;
        self.backups.epoch += 1;
        let at = now();
        self.journal.write(at, What::ServerStarted { epoch: self.lives.to_string() });
        self.journal.tally(|tally| tally.started(at));
    }

    /// Ends the clients, kills the server once more and reads what it still knows.
    fn finish(mut self) -> Result<Counts> {
        self.fleet.end()?;
        self.kill()?;
        self.start_again(None)?;
        let http = HttpCaller::new(&[self.server.url()], None)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for bucket in [MEETING, APART] {
            let began = now();
            let found: Vec<Found> = runtime
                .block_on(http.look(bucket, ""))
                .map_err(|reply| anyhow!("the last read-out failed: {reply:?}"))?;
            self.journal.write_now(What::Readout { bucket: bucket.to_owned(), began, found });
        }
        self.journal.close()?;
        Ok(self.journal.tally(|tally| tally.counts.clone()))
    }

    fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = to.saturating_sub(from).as_micros() as usize;
        from + Duration::from_micros(self.random.below(span + 1) as u64)
    }
}

impl Backups {
    /// The next one to restore: the newest, then the same once more, then the oldest.
    fn next(&mut self) -> usize {
        self.last = match self.restores % 3 {
            0 => self.files.len() - 1,
            1 => self.last,
            _ => 0,
        };
        self.restores += 1;
        self.last
    }
}
