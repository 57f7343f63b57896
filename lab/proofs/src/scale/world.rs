//! A fleet in virtual time, with its database and its clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockhouse::BucketKey;
use lockhouse::fleet::{BucketPlace, NodeEvent, owner_of};
use lockhouse_store::{Scope, Slot};
use random::Random;

use super::client::{Client, HEARTBEAT_MS, Turn};
use super::node::{Nodes, SLOTS};
use super::tally::Tally;
use crate::sim::fleet::model::Database;
use crate::sim::fleet::node_process::label;

/// A fleet with all that it needs.
pub(super) struct World {
    pub(super) now_ms: u64,
    random: Random,
    database: Arc<Database>,
    pub(super) nodes: Nodes,
    /// The node that serves each slot.
    owners: Vec<Option<usize>>,
    pub(super) clients: Vec<Client>,
    /// The next turns of clients. One that is not of the client's present instant is void.
    turns: BinaryHeap<Reverse<(u64, usize)>>,
    /// The clients of each slot.
    of_slot: Vec<Vec<usize>>,
    /// How many clients lack their connection or a lock, those that are gone excepted.
    pub(super) incomplete: usize,
    pub(super) tally: Tally,
}

/// A claim that is tried until it is granted.
pub(super) struct Probe {
    key: BucketKey,
    /// Whether it is granted, once that is known.
    asked: Option<Arc<OnceLock<bool>>>,
    is_granted: bool,
}

/// The step of virtual time.
const STEP_MS: u64 = 2;

/// What takes longer has failed.
const PATIENCE_MS: u64 = 180_000;

/// A client has so many locks, and each bucket so many clients at least.
const LOCKS_EACH: usize = 10;
const BUCKETS: usize = 1024;

/// Clients come within this time.
const COMING_MS: usize = 5000;

/// One client in so many never comes back.
const GONE_EACH: usize = 50;

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            now_ms: 0,
            database: Database::steady(SLOTS, random.next_u64()),
            random,
            nodes: Nodes::new(),
            owners: vec![None; SLOTS.into()],
            clients: Vec::new(),
            turns: BinaryHeap::new(),
            of_slot: vec![Vec::new(); SLOTS.into()],
            incomplete: 0,
            tally: Tally::default(),
        }
    }

    /// Begins to count anew. Returns what was counted.
    pub(super) fn next_part(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    pub(super) fn start_node(&mut self) -> Result<(), String> {
        let random = Random::new(self.random.next_u64());
        self.nodes.start(self.now_ms, &self.database, random)
    }

    /// Clients come that want so many locks in all.
    pub(super) fn add_clients(&mut self, locks: usize) {
        for first in (0..locks).step_by(LOCKS_EACH) {
            let at_ms = self.now_ms + self.random.below(COMING_MS) as u64;
            let key = BucketKey::from(&*format!("bucket-{}", first / LOCKS_EACH % BUCKETS));
            self.add_client(key, first..locks.min(first + LOCKS_EACH), at_ms);
        }
    }

    /// A client comes at that instant. Returns its number.
    pub(super) fn add_client(&mut self, key: BucketKey, locks: Range<usize>, at_ms: u64) -> usize {
        let number = self.clients.len();
        self.of_slot[usize::from(slot_of(&key).get())].push(number);
        self.clients.push(Client::new(number, key, locks, at_ms));
        self.turns.push(Reverse((at_ms, number)));
        self.incomplete += 1;
        number
    }

    /// Runs until that holds. Returns how long that took.
    ///
    /// # Errors
    ///
    /// It does not hold in time, or a node can go on no more.
    pub(super) fn run_until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> bool,
    ) -> Result<u64, String> {
        let begun_ms = self.now_ms;
        while !holds(self) {
            if self.now_ms - begun_ms > PATIENCE_MS {
                return Err(format!("{what} is still to come after {PATIENCE_MS} ms"));
            }
            self.step()?;
        }
        Ok(self.now_ms - begun_ms)
    }

    pub(super) fn run_for(&mut self, ms: u64) -> Result<(), String> {
        let end_ms = self.now_ms + ms;
        self.run_until("the end of a time", |world| world.now_ms >= end_ms).map(drop)
    }

    fn step(&mut self) -> Result<(), String> {
        self.now_ms += STEP_MS;
        self.database.go_on(self.now_ms);
        self.tally.add_statements(self.now_ms, self.database.take_news().statements);
        for (node, event) in self.nodes.run(self.now_ms)? {
            self.note(node, &event);
        }
        while let Some(Reverse((due_ms, number))) = self.turns.peek().copied()
            && due_ms <= self.now_ms
        {
            self.turns.pop();
            if self.clients[number].due_ms == due_ms {
                self.act(number);
            }
        }
        Ok(())
    }

    fn act(&mut self, number: usize) {
        let Self { now_ms, random, nodes, clients, tally, .. } = self;
        let client = &mut clients[number];
        let was_complete = client.is_complete();
        client.act(&mut Turn { now_ms: *now_ms, nodes, tally, random });
        let (due_ms, is_complete) = (client.due_ms, client.is_complete());
        self.turns.push(Reverse((due_ms, number)));
        self.count(was_complete, is_complete);
    }

    /// A client may have become complete, or incomplete.
    fn count(&mut self, was_complete: bool, is_complete: bool) {
        match (was_complete, is_complete) {
            (true, false) => self.incomplete += 1,
            (false, true) => self.incomplete -= 1,
            _ => {}
        }
    }

    fn note(&mut self, node: usize, event: &NodeEvent) {
        match event {
            NodeEvent::Taken { slot, recovers } => {
                self.owners[usize::from(slot.get())] = Some(node);
                self.tally.taken += 1;
                self.tally.recovering += u64::from(*recovers);
            }
            NodeEvent::Released(slot) | NodeEvent::Lost(slot, _) => {
                let owner = &mut self.owners[usize::from(slot.get())];
                owner.take_if(|owner| *owner == node);
                for number in self.of_slot[usize::from(slot.get())].clone() {
                    self.change(number, |client, now_ms| client.hears_from(node, now_ms));
                }
            }
            NodeEvent::Buried(_) => self.tally.buried += 1,
            _ => {}
        }
    }

    /// Changes a client, and with it perhaps its next turn.
    fn change(&mut self, number: usize, change: impl FnOnce(&mut Client, u64)) {
        let client = &mut self.clients[number];
        let was_complete = client.is_complete();
        change(client, self.now_ms);
        let (due_ms, is_complete) = (client.due_ms, client.is_complete());
        self.turns.push(Reverse((due_ms, number)));
        self.count(was_complete, is_complete);
    }

    /// All connections end at once, as when a proxy in front of the nodes starts anew.
    pub(super) fn disconnect_all(&mut self) {
        for number in 0..self.clients.len() {
            let pause_ms = self.random.below(HEARTBEAT_MS as usize) as u64;
            self.change(number, |client, now_ms| client.disconnect(now_ms, pause_ms));
        }
    }

    /// Those nodes are gone without a word. Returns their slots.
    pub(super) fn lose_nodes(&mut self, lost: &[usize]) -> Vec<Slot> {
        let is_lost = |owner: &Option<usize>| owner.is_some_and(|owner| lost.contains(&owner));
        let slots =
            (0..SLOTS).filter(|slot| is_lost(&self.owners[usize::from(*slot)])).map(Slot::new).collect();
        for node in lost {
            let handle = self.nodes.handle(*node);
            let context = handle.as_ref().map(tokio::runtime::Handle::enter);
            for number in 0..self.clients.len() {
                self.change(number, |client, now_ms| client.loses(now_ms, *node));
            }
            drop(context);
            self.nodes.lose(*node);
        }
        self.owners.iter_mut().for_each(|owner| _ = owner.take_if(|owner| lost.contains(owner)));
        slots
    }

    /// Some clients of these slots are gone for good, and others wait for a lock of each. Returns the numbers
    /// of both.
    pub(super) fn lose_clients(&mut self, slots: &[Slot]) -> Vec<(usize, usize)> {
        let of_slots = slots.iter().flat_map(|slot| self.of_slot[usize::from(slot.get())].clone());
        let gone: Vec<usize> = of_slots.step_by(GONE_EACH).collect();
        let mut pairs = Vec::new();
        for number in gone {
            let was_complete = self.clients[number].is_complete();
            self.clients[number].due_ms = u64::MAX;
            self.incomplete -= usize::from(!was_complete);
            let (key, lock) = (self.clients[number].bucket().clone(), self.clients[number].first_lock());
            pairs.push((number, self.add_client(key, lock..lock + 1, self.now_ms)));
        }
        pairs
    }

    /// The node that each slot is for, once those that run are all entitled.
    pub(super) fn homes(&self) -> Vec<Option<usize>> {
        let labels: Vec<String> = self.nodes.running().map(label).collect();
        let labels: Vec<&str> = labels.iter().map(|label| &**label).collect();
        let home = |slot| self.nodes.number_of(owner_of(Slot::new(slot), &labels)?);
        (0..SLOTS).map(home).collect()
    }

    /// Whether every slot is served by that node.
    pub(super) fn is_settled(&self, homes: &[Option<usize>]) -> bool {
        self.is_served() && self.owners == homes
    }

    /// Whether every slot is served.
    pub(super) fn is_served(&self) -> bool {
        self.owners.iter().all(Option::is_some)
    }

    /// A claim in each of these slots, in a bucket without web locks.
    pub(super) fn probes(slots: &[Slot]) -> Vec<Probe> {
        let keys = |slot: Slot| {
            let names = (0..).map(|number| BucketKey::from(&*format!("claims-{number}")));
            names.filter(move |key| slot_of(key) == slot)
        };
        let keys = slots.iter().filter_map(|slot| keys(*slot).next());
        keys.map(|key| Probe { key, asked: None, is_granted: false }).collect()
    }

    /// Tries those that are not granted. Whether all are.
    pub(super) fn try_again(&self, probes: &mut [Probe]) -> bool {
        for probe in probes.iter_mut().filter(|probe| !probe.is_granted) {
            match probe.asked.as_ref().map(|asked| asked.get()) {
                Some(Some(true)) => probe.is_granted = true,
                Some(None) => {}
                None | Some(Some(false)) => {
                    let owner = self.owners[usize::from(slot_of(&probe.key).get())];
                    probe.asked = owner.and_then(|owner| self.claim(owner, &probe.key));
                }
            }
        }
        probes.iter().all(|probe| probe.is_granted)
    }

    /// Claims at that node; shows later whether that is granted. None if the bucket is not there.
    fn claim(&self, node: usize, key: &BucketKey) -> Option<Arc<OnceLock<bool>>> {
        let BucketPlace::Here(house) = self.nodes.find(node, key) else { return None };
        let (bucket, granted) = (house.bucket(key.clone()), Arc::new(OnceLock::new()));
        let shown = granted.clone();
        self.nodes.handle(node)?.spawn(async move {
            let claimed = bucket.claims().claim("probe", "scale", Duration::from_secs(600)).await;
            // It is set once.
            _ = shown.set(claimed.is_ok());
        });
        Some(granted)
    }
}

fn slot_of(key: &BucketKey) -> Slot {
    Slot::of(&Scope::new(key.partition.as_str(), key.bucket.as_str()), SLOTS)
}
