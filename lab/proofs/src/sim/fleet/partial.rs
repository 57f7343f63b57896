//! Faults that leave most as it is: a process stands still for less than its slot lease, tables are locked, a
//! page is damaged, one slot has a noisy caller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::fleet::{NodePhase, owner_of};
use lockhouse::{Bucket, Mode, NameBuf};
use lockhouse_store::{Scope, Slot};
use parking_lot::Mutex;
use tokio::sync::Barrier;
use tokio::time::{Instant, timeout};

use super::model::Traffic;
use super::node_process::label;
use super::process::{Process, SLOTS};
use super::world::{Place, World};

/// The callers of a flood. Together they want more than one commit takes.
const FLOODERS: usize = 6;
/// The names of one call.
const NAMES: usize = 60;
/// The calls of each caller.
const ROUNDS: usize = 4;
/// Longer than the calls take.
const TTL: Duration = Duration::from_secs(20);

/// In so many of a hundred schedules a process stands still while nothing else fails.
const CALM_PAUSES_PERCENT: usize = 25;
/// The longest that slots may take to come to rest.
const REST_MS: u64 = 15_000;
/// How long no slot may move after such a pause: others would ask for it within two polls.
const AFTER_MS: u64 = 700;

/// How long the callers of a flood wait for each other.
const PATIENCE: Duration = Duration::from_secs(2);

/// The instants at which the calls of its callers were answered, each with its round.
pub(super) type Flood = Arc<Mutex<BTreeSet<(usize, Instant)>>>;

impl World {
    pub(super) fn fails_in_part(&mut self, nth: usize, ms: u64) -> Option<&'static str> {
        match self.random.below(100) {
            0..40 => self.pause_shortly(nth),
            40..60 => self.lock_tables(ms),
            60..75 => self.damage_page(ms),
            _ => self.flood(),
        }
    }

    fn short_pause_ms(&mut self) -> u64 {
        let slot_lease_ms = self.times.slot_lease_ms;
        slot_lease_ms * (30 + self.random.below(61) as u64) / 100
    }

    fn pause_shortly(&mut self, nth: usize) -> Option<&'static str> {
        let (turns, ms) = (self.random.below(6), self.short_pause_ms());
        let until_ms = self.now_ms + ms;
        self.places[nth].process.as_mut()?.stand_still(turns, until_ms);
        Some("pause below the slot lease")
    }

    /// The tables of the fleet, which all statements need, or those of buckets.
    fn lock_tables(&mut self, ms: u64) -> Option<&'static str> {
        let which = if self.random.percent(60) { &Traffic::ALL[..] } else { &Traffic::ALL[..2] };
        self.database.lock_tables(which, ms);
        Some("tables are locked")
    }

    fn damage_page(&mut self, ms: u64) -> Option<&'static str> {
        let clients = self.clients.len();
        let key = &self.clients[self.random.below(clients)].key;
        let slot = Slot::of(&Scope::new("", &*key.bucket), SLOTS);
        self.database.damage(slot, ms);
        Some("page is damaged")
    }

    /// Callers lock and unlock many names of one slot, as fast as they are answered.
    fn flood(&mut self) -> Option<&'static str> {
        let clients = self.clients.len();
        let key = self.clients[self.random.below(clients)].key.clone();
        let nth = self.find(&key)?;
        let now_ms = self.now_ms;
        let process =
            self.places[nth].process.as_mut().filter(|process| now_ms >= process.paused_until_ms)?;
        let (together, flood) = (Arc::new(Barrier::new(FLOODERS)), Flood::default());
        for number in 0..FLOODERS {
            let (together, committed) = (together.clone(), flood.clone());
            let call = move |bucket| lock_many(bucket, number, together);
            process.call(&key, call, move |at| committed.lock().extend(at));
        }
        self.floods.push(flood);
        Some("noise of one slot")
    }

    /// The calls of a flood that come at one instant go with one commit, or with two if the first has begun
    /// the one before; with more if their cost is above that of a commit.
    pub(super) fn count_cut_commits(&mut self) {
        for flood in std::mem::take(&mut self.floods) {
            let answered = flood.lock();
            let commits = |of: usize| answered.iter().filter(|(round, _)| *round == of).count();
            if (0..ROUNDS).any(|round| commits(round) > 2) {
                self.judge.count("noise was cut into commits");
            }
        }
    }

    /// Perhaps a process stands still for less than its slot lease while nothing else fails. No slot moves.
    pub(super) fn pause_in_calm(&mut self) -> Result<(), String> {
        if !self.judge.breaches.is_empty() || !self.random.percent(CALM_PAUSES_PERCENT) {
            return Ok(());
        }
        let end_ms = self.now_ms + REST_MS;
        while !self.is_at_rest() {
            if self.now_ms >= end_ms {
                let owners = self.owners();
                self.judge.breach(format!("slots do not come to rest in {REST_MS} ms: {owners:?}"));
                return Ok(());
            }
            self.step()?;
        }
        let nth = self.random.below(self.places.len());
        let before = (self.owners(), self.epochs(), self.counter(nth));
        // Right after it has written, so that its row stands still for little more than the pause.
        let mut still_since_ms = self.now_ms;
        while self.counter(nth) == before.2 {
            still_since_ms = self.now_ms;
            self.step()?;
        }
        let ms = self.short_pause_ms();
        if self.random.percent(30) {
            self.flood();
        }
        let lost = self.judge.tally.of("lost");
        let until_ms = self.now_ms + ms;
        let Some(process) = &mut self.places[nth].process else { return Ok(()) };
        process.stand_still(0, until_ms);
        self.judge.note(|| format!("node-{nth} stands still in calm for {ms} ms"));
        while self.now_ms < until_ms {
            self.step()?;
        }
        let counter = self.counter(nth);
        while self.counter(nth) == counter {
            self.step()?;
        }
        let still_ms = self.now_ms - still_since_ms;
        let end_ms = self.now_ms + AFTER_MS;
        while self.now_ms < end_ms {
            self.step()?;
        }
        // Clocks differ by a little, where leases are judged.
        if !self.judge.judges_leases || still_ms >= self.times.slot_lease_ms * 95 / 100 {
            self.judge.count("a calm pause was too long");
            return Ok(());
        }
        self.judge.count("a calm pause moved no slot");
        let after = (self.owners(), self.epochs());
        if (&before.0, &before.1) != (&after.0, &after.1) {
            self.judge
                .breach(format!("slots moved for {still_ms} ms without node-{nth}: {before:?}, {after:?}"));
        }
        if self.judge.tally.of("lost") > lost {
            self.judge.breach(format!("locks were lost by {still_ms} ms without node-{nth}"));
        }
        Ok(())
    }

    /// Whether every process is a member, and every slot at the node that it is for.
    fn is_at_rest(&self) -> bool {
        let labels: Vec<String> = (0..self.places.len()).map(label).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let is_member = |place: &Place| {
            let node = place.process.as_ref().and_then(Process::node);
            node.is_some_and(|node| node.phase() == NodePhase::Member)
        };
        self.places.iter().all(is_member)
            && (0..)
                .map(Slot::new)
                .zip(self.owners())
                .all(|(slot, owner)| owner.as_deref() == owner_of(slot, &labels))
    }

    fn owners(&self) -> Vec<Option<Box<str>>> {
        self.database.look(|tables| (0..SLOTS).map(|slot| tables.owner(Slot::new(slot))).collect())
    }

    fn epochs(&self) -> Vec<u64> {
        self.database.look(|tables| (0..SLOTS).map(|slot| tables.epoch(Slot::new(slot))).collect())
    }

    /// That of the row of a node.
    fn counter(&self, nth: usize) -> Option<u64> {
        let label = label(nth);
        self.database
            .look(|tables| tables.nodes.iter().find(|row| *row.label == *label).map(|row| row.counter))
    }
}

/// When its calls were answered, each of which begins together with those of the others.
async fn lock_many(bucket: Bucket, number: usize, together: Arc<Barrier>) -> Vec<(usize, Instant)> {
    let mut answered = Vec::new();
    let Ok(owner) = bucket.owners().open(format!("noise {number}"), TTL).await else { return answered };
    let names = (0..NAMES).filter_map(|name| NameBuf::new(&format!("noise {number} {name}")).ok());
    let names: Vec<NameBuf> = names.collect();
    let locks: Vec<_> = names.iter().map(|name| (name.as_name(), Mode::Exclusive)).collect();
    for round in 0..ROUNDS {
        if timeout(PATIENCE, together.wait()).await.is_err() || owner.lock_names(&locks, None).await.is_err()
        {
            break;
        }
        answered.push((round, Instant::now()));
        if owner.unlock_all().await.is_err() {
            break;
        }
    }
    // It ends with its TTL at the latest.
    _ = owner.end().await;
    answered
}
