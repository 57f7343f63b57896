//! The tasks of a node: it joins, polls, takes slots and gives them back, until it has left.
//!
//! ```text
//!   join ─▶ life ─┬─ declared dead ─▶ every house is lost ─▶ join
//!                 ├─ is to leave ───▶ every house is closed ─▶ leave ─▶ looks on
//!                 └─ fails ─────────▶ every house is lost
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task;
use std::time::Duration;

use lockhouse_store::{
    Fleet, FleetRows, FleetStore, HistoryFaults, JoinError, NewNode, NodeId, NodeRow, Slot, Stillness,
};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::committer::{Committer, Heard, LifeEnd, SlotStore};
use super::membership::{Membership, Plan, Poll, Take};
use super::node::{NodeError, NodeEvent, NodePhase, NotReleased, Peers};
use super::options::NodeOptions;
use super::slots::{SlotState, SlotTable};
use crate::engine::commit::slot_lease::{NodeClock, SlotLease};
use crate::engine::commit::steady_clock::SteadyClock;
use crate::engine::house::open::{FormerOwner, SlotTenure};
use crate::{House, StoreState};

/// So many events are kept for a receiver that is slow.
const EVENTS: usize = 1024;

/// The pause before a node that was declared dead tries again to join.
const REJOIN: Duration = Duration::from_millis(250);

/// The pause before a slot is taken again that could not be served: it has to be mended first.
const UNSERVABLE: Duration = Duration::from_secs(10);

/// So many slots are loaded at once, as the store has connections for it: one that takes long holds up no
/// other.
const LOADS: usize = 2;

/// The place in the queue of those that wait to load a slot.
type LoadTurn = Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>;

/// A node, as all its handles and tasks share it.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) fleet: Arc<dyn Fleet>,
    peers: Arc<dyn Peers>,
    pub(super) options: NodeOptions,
    clock: Arc<SteadyClock>,
    pub(super) table: SlotTable,
    /// The rows that the last poll has found.
    pub(super) rows: watch::Sender<Arc<FleetRows>>,
    life: Mutex<Option<Arc<Life>>>,
    pub(super) phase: watch::Sender<NodePhase>,
    is_leaving: watch::Sender<bool>,
    pub(super) events: broadcast::Sender<NodeEvent>,
    /// Why the last poll was not answered, or what is committed is not kept.
    away: Mutex<Option<String>>,
    /// The place in the plan of the slot that is asked for next.
    next_ask: AtomicUsize,
}

/// A node from its joining to its end.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) store: Arc<dyn FleetStore>,
    of_slots: Arc<SlotStore>,
    pub(super) lease: Arc<SlotLease>,
    heard: Arc<Heard>,
    /// No further slot is served in it: it is over, or the node leaves.
    is_ending: watch::Sender<bool>,
    /// A slot is asked for.
    is_asking: AtomicBool,
    /// How many slots were asked for in vain, one after the other.
    in_vain: AtomicUsize,
    /// It has got all the slots that are for it, but for those that it cannot get.
    pub(super) has_share: AtomicBool,
    /// The former life of the same name that was seen standing still.
    outlived: Option<NodeRow>,
    /// A permit for each slot that is loaded.
    loading: Arc<Semaphore>,
}

/// How a life has ended.
enum Ended {
    Dead,
    Left,
    Failed(NodeError),
}

impl Inner {
    pub(super) async fn start(
        fleet: Arc<dyn Fleet>,
        peers: Arc<dyn Peers>,
        options: NodeOptions,
    ) -> Result<Arc<Self>, NodeError> {
        let clock = SteadyClock::begin(NodeClock::new(options.clock.as_ref()));
        let table = SlotTable::new(fleet.slots());
        let inner = Arc::new(Self {
            fleet,
            peers,
            options,
            clock,
            table,
            rows: watch::Sender::new(Arc::default()),
            life: Mutex::default(),
            phase: watch::Sender::new(NodePhase::Joining),
            is_leaving: watch::Sender::new(false),
            events: broadcast::Sender::new(EVENTS),
            away: Mutex::default(),
            next_ask: AtomicUsize::new(0),
        });
        let first = inner.join().await?;
        inner.enter(&first.0);
        tokio::spawn(inner.clone().run(first));
        Ok(inner)
    }

    pub(super) fn life(&self) -> Option<Arc<Life>> {
        self.life.lock().clone()
    }

    /// Why the store cannot be used at the moment.
    pub(super) fn store_away(&self) -> Option<String> {
        self.away.lock().clone()
    }

    pub(super) fn begin_to_leave(&self) {
        self.is_leaving.send_replace(true);
    }

    fn note(&self, event: NodeEvent) {
        // Nothing listens where no log is kept.
        _ = self.events.send(event);
    }

    fn enter(&self, life: &Arc<Life>) {
        *self.life.lock() = Some(life.clone());
        self.phase.send_replace(NodePhase::Member);
    }

    /// Goes through the lives of the node, the first of which it has entered.
    async fn run(self: Arc<Self>, first: (Arc<Life>, Committer)) {
        let mut next = Some(first);
        while let Some((life, committer)) = next.take() {
            self.note(NodeEvent::Joined);
            let ended = self.live(&life, committer).await;
            life.is_ending.send_replace(true);
            *self.life.lock() = None;
            for (slot, house) in self.table.houses() {
                house.lose();
                self.table.change(slot, self.clock.now(), |state| state.is_of(&house), SlotState::Away);
            }
            self.table.forget(self.clock.now());
            match ended {
                Ended::Dead => {
                    self.note(NodeEvent::Dead);
                    self.phase.send_replace(NodePhase::Joining);
                    next = self.rejoin().await;
                    next.iter().for_each(|(life, _)| self.enter(life));
                }
                Ended::Left => {
                    self.phase.send_replace(NodePhase::Left);
                }
                Ended::Failed(why) => {
                    self.phase.send_replace(NodePhase::Failed(why));
                    return;
                }
            }
        }
        self.look_on().await;
    }

    /// Joins anew. None if the node is to leave, or cannot be one any more.
    async fn rejoin(&self) -> Option<(Arc<Life>, Committer)> {
        let mut leaving = self.is_leaving.subscribe();
        loop {
            let joined = tokio::select! {
                biased;
                joined = self.join() => joined,
                _ = leaving.wait_for(|leaving| *leaving) => {
                    self.phase.send_replace(NodePhase::Left);
                    return None;
                }
            };
            match joined {
                Ok(joined) => return Some(joined),
                Err(NodeError::Join(JoinError::Unavailable(why))) => {
                    self.store_is_away(why.to_string());
                    sleep(REJOIN).await;
                }
                // One that has come meanwhile, and is wrong.
                Err(why @ NodeError::AddressInUse { .. }) => {
                    self.store_is_away(why.to_string());
                    sleep(REJOIN).await;
                }
                Err(why) => {
                    self.phase.send_replace(NodePhase::Failed(why));
                    return None;
                }
            }
        }
    }

    /// Joins, once a former life of the same name is declared dead.
    async fn join(&self) -> Result<(Arc<Life>, Committer), NodeError> {
        let NodeOptions { label, address, secret_mark, timing, .. } = &self.options;
        let (label, address, slot_lease) = (label.clone(), address.clone(), timing.slot_lease);
        let new = NewNode { label, address, slot_lease, secret_mark: *secret_mark };
        let mut outlived = self.outlive_same_address().await?;
        let store = loop {
            match self.fleet.join(&new).await {
                Ok(store) => break store,
                Err(JoinError::LabelInUse(former)) => outlived = self.outlive(former).await?,
                Err(error) => return Err(error.into()),
            }
        };
        let rows = store.look().await?;
        let is_stranger = |node: &&NodeRow| node.secret_mark != *secret_mark;
        if let Some(NodeRow { label, address, .. }) = rows.nodes.iter().find(is_stranger).cloned() {
            // It is declared dead later if this does not come about.
            _ = store.leave().await;
            return Err(NodeError::OtherSecret { label, address });
        }
        let lease = Arc::new(SlotLease::new(self.clock.system(), slot_lease));
        let (committer, of_slots) = Committer::new(store.clone(), lease.clone(), timing.idle_commit);
        let heard = committer.heard();
        let life = Life {
            store,
            of_slots,
            lease,
            heard,
            is_ending: watch::Sender::new(false),
            is_asking: AtomicBool::new(false),
            in_vain: AtomicUsize::new(0),
            has_share: AtomicBool::new(false),
            outlived,
            loading: Arc::new(Semaphore::new(LOADS)),
        };
        Ok((Arc::new(life), committer))
    }

    /// Waits until a node of another name that is reached at our address stands still for its slot lease, as
    /// one does whose process has got another name since, and declares it dead.
    async fn outlive_same_address(&self) -> Result<Option<NodeRow>, NodeError> {
        let NodeOptions { label, address, .. } = &self.options;
        let is_other =
            |node: &NodeRow| node.address == *address && node.label != *label && !address.is_empty();
        let Some(former) = self.fleet.look().await?.nodes.into_iter().find(is_other) else { return Ok(None) };
        self.outlive(former).await.map_err(|error| match error {
            NodeError::Join(JoinError::LabelInUse(NodeRow { label, address, .. })) => {
                NodeError::AddressInUse { label, address }
            }
            error => error,
        })
    }

    /// Waits until a node of our name stands still for its slot lease, and declares it dead. Returns it; none
    /// if another one has done so before.
    ///
    /// # Errors
    ///
    /// Its counter moves: it lives. Once it may move: the last commit of a process that was killed may still
    /// be under way in the database.
    async fn outlive(&self, mut former: NodeRow) -> Result<Option<NodeRow>, NodeError> {
        let (mut stillness, mut has_stood_still, mut has_moved) = (Stillness::default(), false, false);
        let mut polls = interval(self.options.timing.poll);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            polls.tick().await;
            let sent = self.clock.now();
            let rows = self.fleet.look().await?;
            let Some(node) = rows.nodes.into_iter().find(|node| node.id == former.id) else {
                return Ok(has_stood_still.then_some(former));
            };
            if node.counter != former.counter {
                if has_moved {
                    return Err(JoinError::LabelInUse(node).into());
                }
                (former, has_moved) = (node.clone(), true);
            }
            stillness.polled(sent, self.clock.now(), node.counter);
            has_stood_still = stillness.lasts() >= node.slot_lease;
            if has_stood_still {
                match self.fleet.bury(node.id, node.counter).await {
                    // The next poll goes to another server, or is not answered either.
                    Err(JoinError::Unavailable(_)) => {}
                    buried => _ = buried?,
                }
            }
        }
    }

    /// Serves slots until the end of this life.
    async fn live(self: &Arc<Self>, life: &Arc<Life>, committer: Committer) -> Ended {
        let mut tasks = JoinSet::new();
        tasks.spawn(committer.run());
        let mut leaving = self.is_leaving.subscribe();
        let ended = tokio::select! {
            biased;
            end = committer_end(&mut tasks) => end,
            never = self.watch(life) => match never {},
            _ = leaving.wait_for(|leaving| *leaving) => Ended::Left,
        };
        if !matches!(ended, Ended::Left) {
            return ended;
        }
        self.phase.send_replace(NodePhase::Leaving);
        // What is being taken now is free again once the node has left.
        life.is_ending.send_replace(true);
        tokio::select! {
            biased;
            end = committer_end(&mut tasks) => end,
            () = self.close_all() => {
                // Whether it comes about or not: nothing is granted any more, and another node declares this
                // one dead.
                _ = life.store.leave().await;
                Ended::Left
            }
        }
    }

    /// Polls, and does what follows from that.
    async fn watch(self: &Arc<Self>, life: &Arc<Life>) -> std::convert::Infallible {
        let join_delay = self.options.timing.join_delay;
        let mut membership = Membership::new(life.store.id(), join_delay, life.outlived.as_ref());
        let mut polls = interval(self.options.timing.poll);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last_sent, mut faults) = (None, HistoryFaults::default());
        loop {
            polls.tick().await;
            let (sent, sent_by_system) = (self.clock.now(), life.lease.now());
            let looked = life.store.look().await;
            let Some(rows) = self.take_rows(looked, self.why_not_kept(life)) else { continue };
            let is_served = |slot| self.table.is_or_was_served(slot, sent);
            // What may have happened meanwhile is not a matter of patience: by the clock that leaps.
            let last = last_sent.replace(sent_by_system);
            let gap = last.map_or(Duration::MAX, |last| life.lease.now().saturating_sub(last));
            let poll = Poll { sent, answered: self.clock.now(), gap };
            let answered = poll.answered;
            let plan = membership.polled(poll, &rows, life.lease.is_mute(), is_served);
            self.lose_what_is_not_owned(life);
            self.note_history(&mut faults, life.store.history_faults());
            let misses =
                plan.take.len() + plan.ask.len().saturating_sub(life.in_vain.load(Ordering::Acquire));
            if membership.is_entitled() && misses == 0 && self.table.moving() == 0 {
                life.has_share.store(true, Ordering::Release);
            }
            self.carry_out(life, plan, &rows, answered).await;
        }
    }

    /// Takes note of why the store cannot be used at the moment.
    fn store_is_away(&self, why: String) {
        if self.away.lock().replace(why.clone()).is_none() {
            self.note(NodeEvent::StoreAway(why));
        }
    }

    /// Why the store does not keep what this node commits, though it may answer polls.
    fn why_not_kept(&self, life: &Life) -> Option<String> {
        let of_houses = || {
            self.table.houses().into_iter().find_map(|(_, house)| match house.store_state() {
                StoreState::Unavailable { why, .. } => Some(why),
                _ => None,
            })
        };
        life.heard.unconfirmed().map(String::from).or_else(of_houses)
    }

    /// Takes note of what a poll has found, and of what commits have.
    fn take_rows(
        &self,
        looked: Result<FleetRows, JoinError>,
        not_kept: Option<String>,
    ) -> Option<Arc<FleetRows>> {
        let rows = match looked {
            Ok(rows) => Arc::new(rows),
            Err(why) => {
                self.store_is_away(why.to_string());
                return None;
            }
        };
        match not_kept {
            Some(why) => self.store_is_away(why),
            None if self.away.lock().take().is_some() => self.note(NodeEvent::StoreBack),
            None => {}
        }
        self.rows.send_replace(rows.clone());
        self.table.notify();
        Some(rows)
    }

    /// Takes note of what has gone wrong with the history since.
    fn note_history(&self, known: &mut HistoryFaults, faults: HistoryFaults) {
        if let Some(meters) = &self.options.houses.bounds().meters {
            meters.note_left_out(faults.left_out - known.left_out);
        }
        if faults.times > known.times {
            self.note(NodeEvent::HistoryFails(faults.why.to_string()));
        }
        *known = faults;
    }

    /// A commit has said which slots the node owns: the houses of others are lost.
    fn lose_what_is_not_owned(&self, life: &Life) {
        let (commit, owned) = life.heard.owned();
        let strays = self.table.served_before(commit).into_iter().filter(|(slot, _)| !owned.contains(slot));
        strays.for_each(|(_, house)| house.lose());
    }

    /// Carries out what a poll leads to that was answered at that instant.
    async fn carry_out(self: &Arc<Self>, life: &Arc<Life>, plan: Plan, rows: &FleetRows, answered: Duration) {
        for (dead, seen) in plan.bury {
            // A mute node cannot know whether others, too, have stood still only as the store was away.
            if life.lease.is_mute() {
                break;
            }
            if let Ok(true) = life.store.bury(dead, seen).await {
                let label = rows.nodes.iter().find(|node| node.id == dead).map(|node| node.label.clone());
                self.note(NodeEvent::Buried(label.unwrap_or_default()));
            }
        }
        let begins = |take: &Take| self.begin_to_open(take.slot);
        let mut takes: Vec<Take> = plan.take.into_iter().filter(begins).collect();
        // Those first to which holders of Web Locks may want to come back.
        takes.sort_by_key(|take| rows.slots.get(usize::from(take.slot.get())).is_some_and(|row| row.clean));
        if takes.is_empty() && self.table.moving() == 0 {
            self.ask_for_one(life, &plan.ask, rows);
        }
        for take in takes {
            let turn = life.queue_to_load().await;
            let (node, life) = (self.clone(), life.clone());
            tokio::spawn(async move { node.open(&life, take, answered, turn).await });
        }
    }

    /// Asks for one of the slots, another one each time.
    fn ask_for_one(self: &Arc<Self>, life: &Arc<Life>, asks: &[(NodeId, Slot)], rows: &FleetRows) {
        if asks.is_empty() || life.is_asking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (owner, slot) = asks[self.next_ask.fetch_add(1, Ordering::Relaxed) % asks.len()];
        let owner = rows.nodes.iter().find(|node| node.id == owner).cloned();
        let epoch = rows.slots.iter().find(|row| row.slot == slot).map_or(0, |row| row.epoch);
        let (node, life) = (self.clone(), life.clone());
        tokio::spawn(async move {
            // One that does not answer must not keep this node from asking others.
            if let Some(owner) = owner
                && let Ok(Ok(())) =
                    timeout(node.options.timing.slot_lease, node.peers.ask(&owner, slot)).await
                && node.begin_to_open(slot)
            {
                life.in_vain.store(0, Ordering::Release);
                let take = Take { slot, epoch, wait: Duration::ZERO, wait_if_restored: Duration::ZERO };
                let turn = life.queue_to_load().await;
                node.open(&life, take, node.clock.now(), turn).await;
            } else {
                life.in_vain.fetch_add(1, Ordering::AcqRel);
            }
            life.is_asking.store(false, Ordering::Release);
        });
    }

    /// Marks a slot as being taken; false if this node has to do with it already.
    fn begin_to_open(&self, slot: Slot) -> bool {
        let now = self.clock.now();
        self.table.change(slot, now, |state| state.may_be_opened(now), SlotState::Opening)
    }

    /// Takes a slot that is marked as being taken, and serves it. What is known of its former owner is so
    /// since that instant.
    async fn open(self: &Arc<Self>, life: &Arc<Life>, take: Take, since: Duration, turn: LoadTurn) {
        let Take { slot, epoch, wait, wait_if_restored } = take;
        let former = FormerOwner { epoch, wait, wait_if_restored, since, clock: self.clock.clone() };
        let options = self.options.houses.clone();
        let opened = async {
            let tenure = SlotTenure { slot, lease: life.lease.clone(), former, turn: turn.await };
            House::open_slot(life.of_slots.clone(), options, tenure).await
        };
        let (mut ending, now) = (life.is_ending.subscribe(), || self.clock.now());
        let is_opening = |state: &SlotState| matches!(state, SlotState::Opening);
        let opened = tokio::select! {
            biased;
            _ = ending.wait_for(|is_ending| *is_ending) => {
                self.table.change(slot, now(), is_opening, SlotState::Away);
                return;
            }
            opened = opened => opened,
        };
        let house = match opened {
            Ok(house) => house,
            Err(why) if why.is_about_what_is_kept() => {
                let until = now() + UNSERVABLE;
                self.table.change(slot, now(), is_opening, SlotState::Unservable(until));
                self.note(NodeEvent::Unservable(slot, why.to_string()));
                return;
            }
            Err(why) => {
                self.table.change(slot, now(), is_opening, SlotState::Away);
                self.note(NodeEvent::NotTaken(slot, why.to_string()));
                return;
            }
        };
        let state = SlotState::Serving(house.clone(), life.heard.sent());
        self.table.change(slot, now(), is_opening, state);
        self.note(NodeEvent::Taken { slot, recovers: house.waits_for_holders() });
        if *life.is_ending.borrow() {
            // The end of all houses may have passed before this one was there.
            house.lose();
        }
        let node = self.clone();
        tokio::spawn(async move {
            let end = house.ended().await;
            let now = node.clock.now();
            let next = match &end {
                StoreState::Failed(_) => SlotState::Unservable(now + UNSERVABLE),
                _ => SlotState::Away,
            };
            node.table.change(slot, now, |state| state.is_of(&house), next);
            match end {
                StoreState::Failed(why) => node.note(NodeEvent::Unservable(slot, why.to_string())),
                StoreState::Closed(_) => node.note(NodeEvent::Released(slot)),
                lost => node.note(NodeEvent::Lost(slot, lost)),
            }
        });
    }

    pub(super) async fn release(self: &Arc<Self>, slot: Slot) -> Result<(), NotReleased> {
        let SlotState::Serving(house, _) = self.table.get(slot) else { return Err(NotReleased::NotHere) };
        if house.waits_for_holders() {
            return Err(NotReleased::Recovers);
        }
        let is_served = |state: &SlotState| matches!(state, SlotState::Serving(..)) && state.is_of(&house);
        if !self.table.change(slot, self.clock.now(), is_served, SlotState::Closing(house.clone())) {
            return Err(NotReleased::NotHere);
        }
        // The caller may be gone before the end.
        let closed = tokio::spawn(async move { house.close().await }).await;
        match closed {
            Ok(StoreState::Closed(_)) => Ok(()),
            _ => Err(NotReleased::Unconfirmed),
        }
    }

    /// Closes the houses of all slots at once.
    async fn close_all(&self) {
        let mut closing = JoinSet::new();
        for (_, house) in self.table.houses() {
            closing.spawn(async move { house.close().await });
        }
        while closing.join_next().await.is_some() {}
    }

    /// Goes on to poll, to know where buckets are.
    async fn look_on(&self) {
        let mut polls = interval(self.options.timing.poll);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            polls.tick().await;
            _ = self.take_rows(self.fleet.look().await, None);
        }
    }
}

impl Life {
    /// Queues up behind those that have done so before. Returns at once with the place.
    async fn queue_to_load(&self) -> LoadTurn {
        let loading = self.loading.clone();
        let mut turn: LoadTurn =
            Box::pin(async { loading.acquire_owned().await.expect("it is never closed") });
        match poll_fn(|context| task::Poll::Ready(turn.as_mut().poll(context))).await {
            task::Poll::Ready(permit) => Box::pin(std::future::ready(permit)),
            task::Poll::Pending => turn,
        }
    }
}

/// Waits for the end of the committer.
async fn committer_end(tasks: &mut JoinSet<LifeEnd>) -> Ended {
    match tasks.join_next().await {
        Some(Ok(LifeEnd::Failed(fatal))) => Ended::Failed(NodeError::Join(fatal.into())),
        Some(Ok(LifeEnd::Dead) | Err(_)) => Ended::Dead,
        None => std::future::pending().await,
    }
}
