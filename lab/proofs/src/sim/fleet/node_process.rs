//! A node in a runtime of its own, whose clock is moved on by hand.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::fleet::{FleetNode, NodeError, NodeOptions, NodePhase, Peers, Timing};
use lockhouse::{ManualClock, Options};
use lockhouse_store::{Fleet, NodeRow, Slot};
use parking_lot::Mutex;
use random::Random;
use tokio::runtime::{Builder, Handle, Runtime};

/// A process with a node, as far as it is the node's. Without it all tasks of the node end at once.
pub(crate) struct NodeProcess {
    runtime: Runtime,
    clock: ManualClock,
    /// How fast its clock goes, in thousandths.
    rate: u64,
    born_ms: u64,
    local_ms: u64,
    next_tick_ms: u64,
    random: Random,
    started: Started,
}

type Started = Arc<Mutex<Option<Result<FleetNode, NodeError>>>>;

/// How a node is set up.
pub(crate) struct NodeSetup {
    pub(crate) label: String,
    pub(crate) timing: Timing,
    pub(crate) houses: Options,
    /// How far its calendar is ahead.
    pub(crate) calendar_ms: i64,
    /// How fast its clock goes, in thousandths.
    pub(crate) rate: u64,
}

/// A question of one node to another, on its way.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) label: Box<str>,
    pub(crate) slot: Slot,
    pub(crate) answer: tokio::sync::oneshot::Sender<Result<(), String>>,
}

/// The other nodes, as each reaches them.
#[derive(Debug, Default)]
pub(crate) struct NodeNetwork(pub(crate) Mutex<Vec<Ask>>);

impl Peers for NodeNetwork {
    fn ask<'a>(
        &'a self,
        node: &'a NodeRow,
        slot: Slot,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async move {
            let (answer, answered) = tokio::sync::oneshot::channel();
            self.0.lock().push(Ask { label: node.label.clone(), slot, answer });
            answered.await.unwrap_or_else(|_| Err("no answer".to_owned()))
        })
    }
}

const TICK_MS: u64 = 100;

pub(crate) fn label(number: usize) -> String {
    format!("node-{number}")
}

impl NodeProcess {
    /// Begins at that instant.
    ///
    /// # Errors
    ///
    /// There is no runtime for it.
    pub(crate) fn start(
        now_ms: u64,
        setup: NodeSetup,
        fleet: Arc<dyn Fleet>,
        peers: Arc<dyn Peers>,
        random: Random,
    ) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let clock = ManualClock::new();
        clock.advance_without_tick(Duration::from_millis(now_ms));
        let NodeSetup { label, timing, houses, calendar_ms, rate } = setup;
        clock.set_calendar(calendar_ms);
        let houses = houses.clock(&clock);
        let options = NodeOptions::new(&label, "").timing(timing).houses(houses).clock(&clock);
        let started = Started::default();
        let slot = started.clone();
        runtime.spawn(async move {
            let node = FleetNode::start(fleet, peers, options).await;
            *slot.lock() = Some(node);
        });
        let (born_ms, local_ms, next_tick_ms) = (now_ms, 0, 0);
        Ok(Self { runtime, clock, rate, born_ms, local_ms, next_tick_ms, random, started })
    }

    /// The node, once it has joined.
    pub(crate) fn node(&self) -> Option<FleetNode> {
        self.started.lock().as_ref().and_then(|started| started.as_ref().ok()).cloned()
    }

    /// Why it can go on no more.
    pub(crate) fn failure(&self) -> Option<String> {
        let started = self.started.lock();
        match started.as_ref()? {
            Err(why) => Some(why.to_string()),
            Ok(node) => match node.phase() {
                NodePhase::Failed(why) => Some(why.to_string()),
                _ => None,
            },
        }
    }

    pub(crate) fn has_left(&self) -> bool {
        self.node().is_some_and(|node| node.phase() == NodePhase::Left)
    }

    /// How long it has lived, by its own clock.
    pub(crate) fn local_ms(&self) -> u64 {
        self.local_ms
    }

    /// The runtime, for tasks of the process besides those of the node.
    pub(crate) fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// Runs until that instant. If that is long after the last run, it has stood still until then.
    pub(crate) fn run(&mut self, now_ms: u64) {
        let local_ms = (now_ms - self.born_ms) * self.rate / 1000;
        let passed = Duration::from_millis(local_ms - self.local_ms);
        self.local_ms = local_ms;
        self.clock.advance_without_tick(passed);
        if local_ms >= self.next_tick_ms {
            self.clock.stand_still(Duration::ZERO);
            self.next_tick_ms = local_ms + TICK_MS + self.random.below(60) as u64;
        }
        let stood_still = passed > Duration::from_millis(TICK_MS);
        self.runtime.block_on(async {
            if stood_still {
                tokio::time::advance(passed).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else {
                tokio::time::sleep(passed).await;
            }
        });
    }

    /// Runs a little, without time passing.
    pub(crate) fn run_turns(&self, turns: usize) {
        self.runtime.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Another node asks for a slot.
    pub(crate) fn asked(&self, ask: Ask) {
        let Some(node) = self.node() else { return };
        let Ask { slot, answer, .. } = ask;
        self.runtime.spawn(async move {
            let released = node.release(slot).await.map_err(|why| why.to_string());
            // The one that asked may be gone.
            _ = answer.send(released);
        });
    }
}
