//! A process of the fleet: a node with sessions, which stands still, is killed, and starts anew under the
//! same label.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::fleet::{BucketPlace, FleetNode, SlotLease, Timing};
use lockhouse::{BucketKey, Options};
use parking_lot::Mutex;
use random::Random;

use super::model::Database;
use super::model::ModelFleet;
use super::model::Plant;
use super::node_process::{Ask, NodeNetwork, NodeProcess, NodeSetup, label};
use super::session::Session;
use super::wire::{Input, ToNode, Wire};

/// The times of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) slot_lease_ms: u64,
    /// Whether some nodes have four times that, as where the setting is changed in one node after the other.
    pub(super) has_two_slot_leases: bool,
    pub(super) lease_ms: u64,
    pub(super) join_delay_ms: u64,
    /// Whether the calendar of the nodes says what tokens were given before.
    pub(super) has_calendar: bool,
}

pub(super) const SLOTS: u16 = 4;

impl Times {
    pub(super) fn longest_slot_lease_ms(&self) -> u64 {
        if self.has_two_slot_leases { 4 * self.slot_lease_ms } else { self.slot_lease_ms }
    }
}

/// A process that runs.
pub(super) struct Process {
    number: usize,
    born_ms: u64,
    running: NodeProcess,
    lease_ms: u64,
    plant: Option<Plant>,
    /// What has happened to the node, in words.
    events: Option<Box<dyn FnMut() -> Option<String>>>,
    arrivals: Vec<(u64, BucketKey, Arc<Wire>)>,
    sessions: Vec<Session>,
    last_session: u64,
    answers: Vec<Waiting>,
    /// Nothing of it runs until then.
    pub(super) paused_until_ms: u64,
}

/// An answer that the socket waits for, and whether the node may give it.
struct Waiting {
    lease: Arc<SlotLease>,
    is_there: Box<dyn Fn() -> bool>,
    hand_over: Box<dyn FnOnce()>,
}

/// In such a calendar the clock says nothing of the tokens of earlier lives.
const CENTURIES_AHEAD_MS: i64 = 200 * 365 * 86_400_000;

impl Process {
    /// Begins at that instant.
    pub(super) fn start(
        number: usize,
        (now_ms, rate): (u64, u64),
        times: Times,
        database: &Arc<Database>,
        network: &Arc<NodeNetwork>,
        plant: Option<Plant>,
    ) -> Result<Self, String> {
        let ms = Duration::from_millis;
        let is_longer = times.has_two_slot_leases && database.draw().is_multiple_of(2);
        let slot_lease = ms(if is_longer { times.longest_slot_lease_ms() } else { times.slot_lease_ms });
        let setup = NodeSetup {
            label: label(number),
            timing: Timing { join_delay: ms(times.join_delay_ms), ..Timing::of(slot_lease) },
            houses: Options::new().lease(ms(times.lease_ms)).store_timeout(ms(400)),
            calendar_ms: if times.has_calendar { 0 } else { CENTURIES_AHEAD_MS },
            rate,
        };
        let fleet = Arc::new(ModelFleet::new(database, number, SLOTS, slot_lease / 4));
        let random = Random::new(database.draw());
        Ok(Self {
            number,
            born_ms: now_ms,
            running: NodeProcess::start(now_ms, setup, fleet, network.clone(), random)?,
            lease_ms: times.lease_ms,
            plant,
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
        self.running.node()
    }

    /// Why it can go on no more.
    pub(super) fn failure(&self) -> Option<String> {
        self.running.failure()
    }

    pub(super) fn has_left(&self) -> bool {
        self.running.has_left()
    }

    /// What has happened to the node since, in words. What happens in one step has no order: a house and its
    /// node may notice their ends in either.
    pub(super) fn take_events(&mut self) -> Vec<String> {
        if self.events.is_none() {
            self.events = self.node().map(|node| {
                let mut events = node.events();
                let next = move || events.try_recv().ok().map(|event| format!("{event:?}"));
                Box::new(next) as Box<dyn FnMut() -> Option<String>>
            });
        }
        let mut events: Vec<_> = self.events.iter_mut().flat_map(std::iter::from_fn).collect();
        events.sort();
        events
    }

    /// Runs until that instant, if it does not stand still.
    pub(super) fn run(&mut self, now_ms: u64) {
        if now_ms < self.paused_until_ms {
            return;
        }
        self.running.run(now_ms);
        self.serve(now_ms);
    }

    /// Runs only a little, and then stands still.
    pub(super) fn stand_still(&mut self, turns: usize, until_ms: u64) {
        self.running.run_turns(turns);
        self.paused_until_ms = until_ms;
    }

    /// The process dies in the middle of its work.
    pub(super) fn kill(mut self) {
        let handle = self.running.handle();
        let guard = handle.enter();
        self.sessions.drain(..).for_each(Session::end);
        self.arrivals.drain(..).for_each(|(_, _, wire)| wire.break_off());
        self.answers.clear();
        drop(guard);
    }

    /// It gives all slots back, and leaves.
    pub(super) fn leave(&self) {
        if let Some(node) = self.node() {
            self.running.handle().spawn(async move { node.leave().await });
        }
    }

    /// Another node asks for a slot.
    pub(super) fn asked(&self, ask: Ask) {
        self.running.asked(ask);
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
        let handle = self.running.handle();
        let guard = handle.enter();
        let bucket = house.bucket(key.clone());
        let Some(lease) = bucket.slot_lease().cloned() else { return };
        let answer = Arc::new(Mutex::new(None));
        let (there, taken, future) = (answer.clone(), answer.clone(), call(bucket));
        drop(guard);
        handle.spawn(async move {
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
        let handle = self.running.handle();
        let guard = handle.enter();
        let arrived: Vec<_> = self.arrivals.extract_if(.., |(due, ..)| *due <= now_ms).collect();
        for (_, key, wire) in arrived {
            self.accept(&node, now_ms, key, wire);
        }
        let (local_ms, plant) = (self.running.local_ms(), self.plant);
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
}
