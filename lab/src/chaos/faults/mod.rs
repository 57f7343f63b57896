//! The kinds of faults.

pub(super) mod clocks;
mod failover;
mod large;
mod noise;
mod pauses;
mod tables;
mod tls;

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use random::Random;
use rustix::process::Signal;
use serde::Serialize;

use super::network::{Cut, DATABASES, NODES, WORKERS};
use super::storm::{Storm, failures};
use super::{LEASE, SLOT_LEASE};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A node is killed or stopped, also while a commit is under way
    Kill,
    /// Nodes, clients and database do not reach each other
    Partition,
    /// The database is started again, after a stop that was fast and after one that was immediate
    Restart,
    /// The database fails over to a standby that lacks acknowledged commits
    Failover,
    /// Clocks of nodes and workers are set wrong, or leap
    Clocks,
    /// The disk of the database is full
    Disk,
    /// Another program locks tables of the database
    Locks,
    /// A page of the database cannot be read
    Pages,
    /// Nodes are stopped for less than their slot lease
    Pauses,
    /// Callers with large calls load one node
    Noise,
    /// The authority and the certificates of the database are renewed
    Tls,
    /// A node is killed while a slot has a large table
    Large,
}

impl Kind {
    pub(super) const ALL: [Self; 12] = [
        Self::Kill,
        Self::Partition,
        Self::Restart,
        Self::Failover,
        Self::Clocks,
        Self::Disk,
        Self::Locks,
        Self::Pages,
        Self::Pauses,
        Self::Noise,
        Self::Tls,
        Self::Large,
    ];
}

impl Kind {
    fn judges_times(self) -> bool {
        matches!(self, Self::Large | Self::Noise | Self::Pauses)
    }

    /// Three of them, chosen by a text such as the name of a commit; none of those that judge times, which a
    /// machine with other runs beside does not keep.
    pub(super) fn some(text: &str) -> Vec<Self> {
        let seed = text.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(257) + u64::from(byte));
        let mut random = Random::new(seed);
        let mut some = Self::ALL.to_vec();
        some.retain(|kind| !kind.judges_times());
        while some.len() > 3 {
            some.remove(random.below(some.len()));
        }
        some
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Partition => "partition",
            Self::Restart => "restart",
            Self::Failover => "failover",
            Self::Clocks => "clocks",
            Self::Disk => "disk",
            Self::Locks => "locks",
            Self::Pages => "pages",
            Self::Pauses => "pauses",
            Self::Noise => "noise",
            Self::Tls => "tls",
            Self::Large => "large",
        })
    }
}

/// A fault that is over.
pub(super) struct Fault {
    pub(super) text: String,
    /// Whether it has hit; if that is not known otherwise, it has if a call failed meanwhile.
    pub(super) has_hit: Option<bool>,
}

impl Fault {
    fn seen_by_clients(text: String) -> Self {
        Self { text, has_hit: None }
    }
}

impl Storm {
    /// Lets a fault of that kind begin and end.
    pub(super) fn fault(&mut self, kind: Kind) -> Result<Fault> {
        match kind {
            Kind::Kill => self.kill_or_stop(),
            Kind::Partition => self.partition(),
            Kind::Restart => self.restart(),
            Kind::Failover => self.fail_over(),
            Kind::Clocks => self.wrong_clocks(),
            Kind::Disk => self.full_disk(),
            Kind::Locks => self.lock_tables(),
            Kind::Pages => self.damage_page(),
            Kind::Pauses => self.pause_shortly(),
            Kind::Noise => self.be_noisy(),
            Kind::Tls => self.renew_certificates(),
            Kind::Large => self.kill_beside_a_large_slot(),
        }
    }

    fn kill_or_stop(&mut self) -> Result<Fault> {
        let place = self.random.below(NODES.len());
        let label = NODES[place];
        let is_in_commit = self.random.percent(60);
        let hold = if is_in_commit { Some(self.hold_commits(label)?) } else { None };
        let during = if is_in_commit { " while it commits" } else { "" };
        // A worker is stopped for longer than its lease, so that it comes back with stale tokens.
        let worker = self.random.percent(50).then(|| self.random.below(WORKERS.len()));
        let text = if self.random.percent(50) {
            self.nodes.kill(place)?;
            self.with_a_stopped_worker(worker, |_| Ok(()))?;
            drop(hold);
            let away = self.between(Duration::ZERO, 2 * SLOT_LEASE);
            thread::sleep(away);
            self.nodes.start_node(place)?;
            format!("node {label} is killed{during}")
        } else {
            let length = self.between(SLOT_LEASE / 5, 3 * SLOT_LEASE);
            self.nodes.signal(place, Signal::STOP)?;
            self.with_a_stopped_worker(worker, |_| {
                drop(hold);
                thread::sleep(length);
                Ok(())
            })?;
            self.nodes.signal(place, Signal::CONT)?;
            format!("node {label} is stopped{during}")
        };
        let with =
            worker.map_or_else(String::new, |worker| format!(", and worker {} is stopped", worker + 1));
        Ok(Fault::seen_by_clients(text + &with))
    }

    fn with_a_stopped_worker(
        &mut self,
        worker: Option<usize>,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let Some(worker) = worker else { return work(self) };
        let length = self.between(LEASE, LEASE + 2 * SLOT_LEASE);
        let begun = Instant::now();
        self.fleet.stop(worker)?;
        work(self)?;
        thread::sleep(length.saturating_sub(begun.elapsed()));
        self.fleet.go_on(worker)
    }

    /// Holds the commits of a node back, once one is under way, until the result is dropped.
    fn hold_commits(&mut self, label: &str) -> Result<Held> {
        let primary = self.databases.primary()?;
        self.runtime.block_on(async {
            let client = primary.connect().await;
            let row = "SELECT FROM lockhouse.nodes WHERE label = convert_to($1, 'UTF8') FOR UPDATE";
            client.batch_execute("BEGIN").await?;
            client.query(row, &[&label]).await?;
            let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            let begun = Instant::now();
            while client.query_one(waits, &[]).await?.get::<_, i64>(0) == 0 {
                ensure!(begun.elapsed() < 4 * SLOT_LEASE, "no commit of the node {label} waits");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(Held(client))
        })
    }

    /// Both ways in turn, with the database away for a while.
    fn restart(&mut self) -> Result<Fault> {
        let mut lengths = Vec::new();
        let mut both_hit = true;
        for is_fast in [true, false] {
            let away = self.between(SLOT_LEASE / 5, 2 * SLOT_LEASE);
            let before = failures(&self.counts());
            self.databases.stop_primary(is_fast)?;
            thread::sleep(away);
            self.databases.start_primary_again()?;
            // Calls that are under way still come to their end.
            thread::sleep(SLOT_LEASE);
            both_hit &= failures(&self.counts()) > before;
            lengths.push(format!("{:.1} s", away.as_secs_f64()));
        }
        let text = format!("the database is stopped, fast for {} and at once for {}", lengths[0], lengths[1]);
        Ok(Fault { text, has_hit: Some(both_hit) })
    }

    fn full_disk(&mut self) -> Result<Fault> {
        let length = self.between(2 * SLOT_LEASE, 5 * SLOT_LEASE);
        self.databases.fill_disk()?;
        thread::sleep(length);
        let has_ended = self.databases.free_disk()?;
        let end = if has_ended { ", which ended it" } else { "" };
        Ok(Fault::seen_by_clients(format!("the disk of the database is full{end}")))
    }

    fn partition(&mut self) -> Result<Fault> {
        let node = NODES[self.random.below(NODES.len())];
        let other = NODES[self.random.below(NODES.len())];
        let worker = WORKERS[self.random.below(WORKERS.len())];
        let database = DATABASES[self.databases.primary];
        let both = |one, two| vec![Cut::OneWay(one, two), Cut::OneWay(two, one)];
        let (text, cuts) = match self.random.below(6) {
            0 => (format!("node {node} is cut off"), vec![Cut::Off(node)]),
            1 => (format!("node {node} does not reach the database"), both(node, database)),
            2 => (format!("node {node} hears nothing of the database"), vec![Cut::OneWay(database, node)]),
            3 => {
                let cuts = NODES.iter().flat_map(|other| both(worker, other));
                let but = if node == other { "" } else { " but one" };
                let cuts = cuts.filter(|cut| node == other || !cut.is_of(other)).collect();
                (format!("worker {worker} reaches no node{but}"), cuts)
            }
            4 => {
                let pairs = [("a", "b"), ("a", "c"), ("b", "c")];
                let cuts = pairs.into_iter().flat_map(|(one, two)| both(one, two)).collect();
                ("no node reaches another".to_owned(), cuts)
            }
            _ => ("the database is cut off".to_owned(), vec![Cut::Off(database)]),
        };
        let length = self.between(SLOT_LEASE / 2, 4 * SLOT_LEASE);
        cuts.iter().try_for_each(Cut::begin)?;
        thread::sleep(length);
        cuts.iter().try_for_each(Cut::end)?;
        Ok(Fault::seen_by_clients(text))
    }
}

/// A transaction for which commits of a node wait. It ends with its connection.
struct Held(#[expect(dead_code, reason = "it is there to be dropped")] tokio_postgres::Client);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_text_chooses_three_kinds_and_many_texts_choose_all_that_judge_no_times() {
        let mut chosen = BTreeSet::new();
        for number in 0..100 {
            let some = Kind::some(&format!("commit {number}"));
            assert_eq!(some, Kind::some(&format!("commit {number}")));
            assert_eq!(some.iter().collect::<BTreeSet<_>>().len(), 3);
            chosen.extend(some);
        }
        let all = Kind::ALL.into_iter().filter(|kind| !kind.judges_times());
        assert_eq!(chosen, all.collect());
    }
}
