//! Server, clients, and what befalls them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use random::Random;

use crate::history::record::{Found, What};

use super::fleet::Fleet;
use super::http::Http;
use super::journal::Journal;
use super::recorder::now;
use super::server::Server;
use super::tally::{Counts, Tally};
use super::{APART, Args, LEASE, MEETING};

pub(super) struct Storm {
    server: Server,
    fleet: Fleet,
    journal: Arc<Journal>,
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
        let journal = Arc::new(Journal::create(&folder.join("history.jsonl"))?);
        let server = Server::start(binary, folder)?;
        let fleet = Fleet::start(server.url(), args.seed, args.workers as usize, journal.clone())?;
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
            match tried % KILLS_PER_RESTORE {
                1 => {
                    self.back_up(folder)?;
                    self.kill(None)?;
                }
                2 => {
                    let nth = self.backups.next();
                    self.kill(Some(nth))?;
                    befell.push_str(&format!("; backup {} was restored", nth + 1));
                }
                _ => self.kill(None)?,
            }
            thread::sleep(SHORTEST_LIFE);
            let met = self.journal.tally(Tally::met).context("the kill was not noted")?;
            counted += u32::from(met.counts());
            println!(
                "kill {counted:>3} of {}: after {:>4} ms, {:>3} acknowledged in the last 100 ms, {:>2} under way{}{befell}",
                self.kills,
                (SHORTEST_LIFE + life).as_millis(),
                met.acknowledged,
                met.in_flight,
                if met.counts() { "" } else { ", does not count" },
            );
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

    /// SIGKILL, and another life over the same file, or over that backup.
    fn kill(&mut self, restored: Option<usize>) -> Result<()> {
        let at = now();
        self.journal.tally(|tally| tally.killed(at));
        self.server.kill()?;
        self.journal.write_now(What::ServerKilled);
        if let Some(nth) = restored {
            self.restore(nth)?;
        }
        let pause = self.between(Duration::ZERO, Duration::from_millis(60));
        thread::sleep(pause);
        self.server.start_again()?;
        self.note_start();
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
        self.server.kill()?;
        self.journal.write_now(What::ServerKilled);
        self.server.start_again()?;
        self.lives += 1;
        self.journal.write_now(What::ServerStarted { epoch: self.lives.to_string() });
        let http = Http::new(&self.server.url())?;
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
