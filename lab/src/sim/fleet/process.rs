//! A process of the fleet: a runtime with a clock of its own, which stands still, is killed, and starts
//! anew under the same label.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::fleet::{BucketPlace, FleetNode, NodeError, NodeOptions, NodePhase, Peers, SlotLease, Timing};
use lockhouse::{BucketKey, ManualClock, Options};
use lockhouse_store::Slot;
use parking_lot::Mutex;
use random::Random;
use tokio::runtime::{Builder, Runtime};

use super::model::Database;
use super::model::ModelFleet;
use super::model::Plant;
use super::session::Session;
use super::wire::{Input, ToNode, Wire};

/// The times of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) slot_lease_ms: u64,
    pub(super) lease_ms: u64,
    pub(super) join_delay_ms: u64,
    /// Whether the calendar of the nodes says what tokens were given before.
    pub(super) has_calendar: bool,
}

pub(super) const SLOTS: u16 = 4;

/// A process that runs.
pub(super) struct Process {
    number: usize,
    runtime: Option<Runtime>,
    clock: ManualClock,
    /// How fast its clock goes, in thousandths.
    rate: u64,
    born_ms: u64,
    local_ms: u64,
    next_tick_ms: u64,
    random: Random,
    lease_ms: u64,
    plant: Option<Plant>,
    started: Started,
    /// What has happened to the node, in words.
    events: Option<Box<dyn FnMut() -> Option<String>>>,
    arrivals: Vec<(u64, BucketKey, Arc<Wire>)>,
    sessions: Vec<Session>,
    last_session: u64,
    answers: Vec<Waiting>,
    /// Nothing of it runs until then.
    pub(super) paused_until_ms: u64,
}

type Started = Arc<Mutex<Option<Result<FleetNode, NodeError>>>>;

/// An answer that the socket waits for, and whether the node may give it.
struct Waiting {
    lease: Arc<SlotLease>,
    is_there: Box<dyn Fn() -> bool>,
    hand_over: Box<dyn FnOnce()>,
}

/// What nodes ask each other, on its way.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) label: Box<str>,
    pub(super) slot: Slot,
    pub(super) answer: tokio::sync::oneshot::Sender<Result<(), String>>,
}

/// The other nodes, as each reaches them.
#[derive(Debug, Default)]
pub(super) struct Network(pub(super) Mutex<Vec<Ask>>);

impl Peers for Network {
    fn ask<'a>(
        &'a self,
        node: &'a lockhouse_store::NodeRow,
        slot: Slot,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async move {
            let (answer, answered) = tokio::sync::oneshot::channel();
            self.0.lock().push(Ask { label: node.label.clone(), slot, answer });
            answered.await.unwrap_or_else(|_| Err("no answer".to_owned()))
        })
    }
}

/// In such a calendar the clock says nothing of the tokens of earlier lives.
const CENTURIES_AHEAD_MS: i64 = 200 * 365 * 86_400_000;

const TICK_MS: u64 = 100;

pub(super) fn label(number: usize) -> String {
    format!("node-{number}")
}

impl Process {
    /// Begins at that instant.
    pub(super) fn start(
        number: usize,
        (now_ms, rate): (u64, u64),
        times: Times,
        database: &Arc<Database>,
        network: &Arc<Network>,
        plant: Option<Plant>,
    ) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let clock = ManualClock::new();
        clock.advance_without_tick(Duration::from_millis(now_ms));
        clock.set_calendar(if times.has_calendar { 0 } else { CENTURIES_AHEAD_MS });
        let (slot_lease, ms) = (Duration::from_millis(times.slot_lease_ms), Duration::from_millis);
        let houses = Options::new().lease(ms(times.lease_ms)).clock(&clock).store_timeout(ms(400));
        let timing = Timing { join_delay: ms(times.join_delay_ms), ..Timing::of(slot_lease) };
        let options = NodeOptions::new(&label(number), "").timing(timing).houses(houses).clock(&clock);
        let fleet = Arc::new(ModelFleet::new(database, number, SLOTS, slot_lease / 4));
        let (peers, started) = (network.clone(), Started::default());
        let slot = started.clone();
        runtime.spawn(async move {
            let node = FleetNode::start(fleet, peers, options).await;
            *slot.lock() = Some(node);
        });
        Ok(Self {
            number,
            runtime: Some(runtime),
            clock,
            rate,
            born_ms: now_ms,
            local_ms: 0,
            next_tick_ms: 0,
            random: Random::new(database.draw()),
            lease_ms: times.lease_ms,
            plant,
            started,
            events: None,
            arrivals: Vec::new(),
            sessions: Vec::new(),
            last_session: 0,
            answers: Vec::new(),
            paused_until_ms: 0,
        })
    }

    /// The node, once it has joined.
    pub(super) fn node(&self) -> Option<FleetNode> {
        self.started.lock().as_ref().and_then(|started| started.as_ref().ok()).cloned()
    }

    /// Why it can go on no more.
    pub(super) fn failure(&self) -> Option<String> {
        let started = self.started.lock();
        match started.as_ref()? {
            Err(why) => Some(why.to_string()),
            Ok(node) => match node.phase() {
                NodePhase::Failed(why) => Some(why.to_string()),
                _ => None,
            },
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.node().is_some_and(|node| node.phase() == NodePhase::Left)
    }

    /// What has happened to the node since, in words.
    pub(super) fn take_events(&mut self) -> Vec<String> {
        if self.events.is_none() {
            self.events = self.node().map(|node| {
                let mut events = node.events();
                let next = move || events.try_recv().ok().map(|event| format!("{event:?}"));
                Box::new(next) as Box<dyn FnMut() -> Option<String>>
            });
        }
        self.events.as_mut().map_or_else(Vec::new, |next| std::iter::from_fn(next).collect())
    }

    /// Runs until that instant, if it does not stand still.
    pub(super) fn run(&mut self, now_ms: u64) {
        if now_ms < self.paused_until_ms {
            return;
        }
        let local_ms = (now_ms - self.born_ms) * self.rate / 1000;
        let passed = Duration::from_millis(local_ms - self.local_ms);
        self.local_ms = local_ms;
        self.clock.advance_without_tick(passed);
        if local_ms >= self.next_tick_ms {
            self.clock.stand_still(Duration::ZERO);
            self.next_tick_ms = local_ms + TICK_MS + self.random.below(60) as u64;
        }
        let stood_still = passed > Duration::from_millis(TICK_MS);
        self.runtime().block_on(async {
            if stood_still {
                tokio::time::advance(passed).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else {
                tokio::time::sleep(passed).await;
            }
        });
        self.serve(now_ms);
    }

    /// Runs only a little, and then stands still.
    pub(super) fn stand_still(&mut self, turns: usize, until_ms: u64) {
        self.runtime().block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
        self.paused_until_ms = until_ms;
    }

    /// The process dies in the middle of its work.
    pub(super) fn kill(mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let guard = runtime.enter();
        self.sessions.drain(..).for_each(Session::end);
        self.arrivals.drain(..).for_each(|(_, _, wire)| wire.break_off());
        self.answers.clear();
        drop(guard);
        drop(runtime);
    }

    /// It gives all slots back, and leaves.
    pub(super) fn leave(&self) {
        if let Some(node) = self.node() {
            self.runtime().spawn(async move { node.leave().await });
        }
    }

    /// Another node asks for a slot.
    pub(super) fn asked(&self, ask: Ask) {
        let Some(node) = self.node() else { return };
        let Ask { slot, answer, .. } = ask;
        self.runtime().spawn(async move {
            let released = node.release(slot).await.map_err(|why| why.to_string());
            // The one that asked may be gone.
            _ = answer.send(released);
        });
    }

    /// A client connects.
    pub(super) fn connect(&mut self, due_ms: u64, key: &BucketKey, wire: &Arc<Wire>) {
        self.arrivals.push((due_ms, key.clone(), wire.clone()));
    }

    /// Carries a call out, if the bucket is here. Its answer is handed over only while the node may speak.
    pub(super) fn call<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &mut self,
        key: &BucketKey,
        call: impl FnOnce(lockhouse::Bucket) -> F,
        hand_over: impl FnOnce(T) + 'static,
    ) {
        let Some(node) = self.node() else { return };
        let BucketPlace::Here(house) = node.find(key) else { return };
        let guard = self.runtime().enter();
        let bucket = house.bucket(key.clone());
        let Some(lease) = bucket.slot_lease().cloned() else { return };
        let answer = Arc::new(Mutex::new(None));
        let (there, taken, future) = (answer.clone(), answer.clone(), call(bucket));
        drop(guard);
        self.runtime().spawn(async move {
            let value = future.await;
            *answer.lock() = Some(value);
        });
        self.answers.push(Waiting {
            lease,
            is_there: Box::new(move || there.lock().is_some()),
            hand_over: Box::new(move || {
                let value = taken.lock().take();
                if let Some(value) = value {
                    hand_over(value);
                }
            }),
        });
    }

    fn serve(&mut self, now_ms: u64) {
        let Some(node) = self.node() else { return };
        let Some(runtime) = self.runtime.take() else { return };
        let guard = runtime.enter();
        let arrived: Vec<_> = self.arrivals.extract_if(.., |(due, ..)| *due <= now_ms).collect();
        for (_, key, wire) in arrived {
            self.accept(&node, now_ms, key, wire);
        }
        let (local_ms, plant) = (self.local_ms, self.plant);
        let sessions = std::mem::take(&mut self.sessions);
        for mut session in sessions {
            if session.serve(now_ms, local_ms, plant) {
                self.sessions.push(session);
            } else {
                session.end();
            }
        }
        // An answer that the node may not give is dropped: the outcome is unknown to its caller.
        let there: Vec<Waiting> = self.answers.extract_if(.., |answer| (answer.is_there)()).collect();
        there.into_iter().filter(|answer| !answer.lease.is_mute()).for_each(|answer| (answer.hand_over)());
        drop(guard);
        self.runtime = Some(runtime);
    }

    fn accept(&mut self, node: &FleetNode, now_ms: u64, key: BucketKey, wire: Arc<Wire>) {
        let (client, resume) = match wire.next_of_node(now_ms) {
            Input::Message(ToNode::Hello { client, resume }) => (client, resume),
            Input::Nothing => return self.arrivals.push((now_ms + 1, key, wire)),
            Input::Message(_) | Input::Closed => return wire.break_off(),
        };
        let BucketPlace::Here(house) = node.find(&key) else { return wire.break_off() };
        let known = resume.as_ref().and_then(|resume| {
            self.sessions.iter_mut().find(|session| session.secret == resume.secret).zip(Some(resume))
        });
        if let Some((session, resume)) = known
            && session.resume(resume, wire.clone())
        {
            return;
        }
        self.last_session += 1;
        let secret = format!("{}-{}-{}", self.number, self.born_ms, self.last_session).into();
        let (bucket, former) = (house.bucket(key), resume.map(|resume| resume.secret));
        let begun = Session::begin(&bucket, house, self.lease_ms, (&client, secret), former, wire.clone());
        match begun {
            Some(session) => self.sessions.push(session),
            None => wire.break_off(),
        }
    }

    #[expect(clippy::expect_used, reason = "it goes only with the process itself")]
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime of a process lives as long")
    }
}
