//! The nodes of the fleet, and the network between them.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::fleet::{BucketPlace, FleetNode, NodeEvent, Timing};
use lockhouse::{BucketKey, Options};
use random::Random;
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use super::client::LEASE_MS;
use crate::sim::fleet::model::{Database, ModelFleet};
use crate::sim::fleet::node_process::{Ask, NodeNetwork, NodeProcess, NodeSetup, label};

/// How many slots there are, and how long a node may be silent: the defaults of a server.
pub(super) const SLOTS: u16 = 256;
pub(super) const SLOT_LEASE_MS: u64 = 3000;

/// All nodes; one that is gone keeps its number.
pub(super) struct Nodes {
    places: Vec<Option<Place>>,
    network: Arc<NodeNetwork>,
    /// Questions to nodes that are on their way.
    asks: Vec<Ask>,
}

/// A node that runs.
struct Place {
    process: NodeProcess,
    /// The node, once it has joined, and what happens to it.
    joined: Option<(FleetNode, broadcast::Receiver<NodeEvent>)>,
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self { places: Vec::new(), network: Arc::default(), asks: Vec::new() }
    }

    /// How many there are, and were.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// The numbers of those that run.
    pub(super) fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.places.len()).filter(|number| self.runs(*number))
    }

    pub(super) fn runs(&self, number: usize) -> bool {
        self.places.get(number).is_some_and(Option::is_some)
    }

    /// Starts another one.
    pub(super) fn start(
        &mut self,
        now_ms: u64,
        database: &Arc<Database>,
        random: Random,
    ) -> Result<(), String> {
        let (number, slot_lease) = (self.places.len(), Duration::from_millis(SLOT_LEASE_MS));
        let timing = Timing::of(slot_lease);
        let setup = NodeSetup {
            label: label(number),
            timing,
            houses: Options::new().lease(Duration::from_millis(LEASE_MS)),
            calendar_ms: 0,
            rate: 1000,
        };
        let fleet = Arc::new(ModelFleet::new(database, number, SLOTS, timing.idle_commit));
        let process = NodeProcess::start(now_ms, setup, fleet, self.network.clone(), random)?;
        self.places.push(Some(Place { process, joined: None }));
        Ok(())
    }

    /// The runtime of a node.
    pub(super) fn handle(&self, number: usize) -> Option<Handle> {
        Some(self.places.get(number)?.as_ref()?.process.handle())
    }

    /// The node is gone, with all that it had.
    pub(super) fn lose(&mut self, number: usize) {
        self.places[number] = None;
    }

    /// Where that node says that the bucket is.
    pub(super) fn find(&self, number: usize, key: &BucketKey) -> BucketPlace {
        let joined = self.places[number].as_ref().and_then(|place| place.joined.as_ref());
        joined.map_or(BucketPlace::Moving, |(node, _)| node.find(key))
    }

    /// The number of the node with that label.
    pub(super) fn number_of(&self, of: &str) -> Option<usize> {
        (0..self.places.len()).find(|number| label(*number) == of)
    }

    /// Runs all of them until that instant. Returns what has happened to them.
    ///
    /// # Errors
    ///
    /// One can go on no more.
    pub(super) fn run(&mut self, now_ms: u64) -> Result<Vec<(usize, NodeEvent)>, String> {
        self.deliver();
        let mut happened = Vec::new();
        for (number, place) in self.places.iter_mut().enumerate() {
            let Some(place) = place else { continue };
            place.process.run(now_ms);
            if let Some(why) = place.process.failure() {
                return Err(format!("{} gives up: {why}", label(number)));
            }
            if place.joined.is_none() {
                place.joined = place.process.node().map(|node| (node.clone(), node.events()));
            }
            let events = place.joined.as_mut().map(|(_, events)| events);
            let next = |events: &mut broadcast::Receiver<NodeEvent>| events.try_recv().ok();
            happened.extend(
                events
                    .into_iter()
                    .flat_map(|events| std::iter::from_fn(move || next(events)))
                    .map(|it| (number, it)),
            );
        }
        Ok(happened)
    }

    /// What one node asks another reaches it in the next step.
    fn deliver(&mut self) {
        let due = std::mem::replace(&mut self.asks, std::mem::take(&mut *self.network.0.lock()));
        for ask in due {
            let number = self.number_of(&ask.label);
            if let Some(Some(place)) = number.map(|number| &self.places[number]) {
                place.process.asked(ask);
            }
        }
    }
}
