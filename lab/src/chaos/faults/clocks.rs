//! The clocks of nodes and workers: a file for each, by which a build with the feature `lab` reads them
//! wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use proofs::history::record::What;

use super::Fault;
use crate::chaos::network::{Cut, NODES, WORKERS};
use crate::chaos::storm::Storm;
use crate::chaos::{FOLDER, LEASE, SLOT_LEASE};
use crate::crash::recorder::now;

/// The variable that names the file.
pub(in crate::chaos) const VARIABLE: &str = "LAB_CLOCKS";

/// The most that a wall clock is set forward or back.
const MOST_WALL_MS: usize = 3_600_000;

/// The most that the other clocks leap in a fault, in all.
const MOST_LEAP: Duration = Duration::from_secs(10);

/// A process that looks at its file has seen what is new in it after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// How wrong the clocks of each host are.
pub(in crate::chaos) struct Clocks(BTreeMap<&'static str, Shift>);

#[derive(Clone, Copy, Default)]
struct Shift {
    wall_ms: i64,
    leap_ms: u64,
}

/// The file with the clocks of that host.
pub(in crate::chaos) fn file(host: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(format!("clocks-{host}"))
}

impl Clocks {
    /// No clock is wrong.
    pub(in crate::chaos) fn right() -> Result<Self> {
        let clocks = Self(NODES.iter().chain(&WORKERS).map(|host| (*host, Shift::default())).collect());
        clocks.0.iter().try_for_each(|(host, shift)| shift.write(host))?;
        Ok(clocks)
    }
}

impl Shift {
    fn text(self) -> String {
        format!("{} {}\n", self.wall_ms, self.leap_ms)
    }

    /// Whole or not at all, as the process may look at any time.
    fn write(self, host: &str) -> Result<()> {
        let new = file(host).with_extension("new");
        fs::write(&new, self.text())?;
        Ok(fs::rename(new, file(host))?)
    }
}

impl Storm {
    /// While holders are cut off, or a node is dead, wall clocks are set wrong, and the other clocks leap.
    pub(in crate::chaos) fn wrong_clocks(&mut self) -> Result<Fault> {
        for host in NODES.into_iter().chain(WORKERS) {
            let wall_ms = self.random.below(2 * MOST_WALL_MS + 1) as i64 - MOST_WALL_MS as i64;
            self.shift(host, |shift| shift.wall_ms = wall_ms)?;
        }
        let text = if self.random.percent(60) {
            let worker = WORKERS[self.random.below(WORKERS.len())];
            Cut::Off(worker).begin()?;
            self.leaps(&NODES)?;
            Cut::Off(worker).end()?;
            format!("worker {worker} is cut off while the clocks of the nodes leap")
        } else {
            let place = self.random.below(NODES.len());
            self.nodes.kill(place)?;
            let others = NODES.into_iter().filter(|node| *node != NODES[place]).chain(WORKERS);
            self.leaps(&others.collect::<Vec<_>>())?;
            self.nodes.start_node(place)?;
            format!("node {} is killed while the clocks of all others leap", NODES[place])
        };
        for host in NODES.into_iter().chain(WORKERS) {
            self.shift(host, |shift| shift.wall_ms = 0)?;
        }
        Ok(Fault { text, has_hit: Some(true) })
    }

    /// One leap after the other, each at all of these hosts, until every lease of before may be over. Leaps
    /// that come more than once a second would shorten leases by more than the tenth that clients leave.
    fn leaps(&mut self, hosts: &[&'static str]) -> Result<()> {
        let until = Instant::now() + SLOT_LEASE + LEASE;
        let mut left = MOST_LEAP;
        while Instant::now() < until {
            let leap = self.between(Duration::ZERO, left);
            left -= leap;
            for host in hosts {
                self.shift(host, |shift| shift.leap_ms += leap.as_millis() as u64)?;
            }
            thread::sleep(self.between(2 * SLOT_LEASE / 3, SLOT_LEASE));
        }
        Ok(())
    }

    /// Sets the clocks of a host, and waits until its process reads them so.
    fn shift(&mut self, host: &'static str, change: impl FnOnce(&mut Shift)) -> Result<()> {
        let shift = self.clocks.0.entry(host).or_default();
        change(shift);
        let shift = *shift;
        let applied = file(host).with_extension("applied");
        self.journal.write(
            now(),
            What::ClocksShifted { host: host.to_owned(), wall_ms: shift.wall_ms, leap_ms: shift.leap_ms },
        );
        shift.write(host)?;
        let begun = Instant::now();
        while fs::read_to_string(&applied).is_ok_and(|text| text != shift.text()) || !applied.exists() {
            ensure!(
                begun.elapsed() < PATIENCE,
                "the process at {host} does not read {}: it needs a build with the feature lab",
                file(host).display()
            );
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
