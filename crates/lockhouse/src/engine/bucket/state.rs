//! A bucket behind its mutex: the lock manager, the requests that wait for it, and the messages that wait for
//! the store.

use std::sync::Arc;

use foldhash::fast::RandomState;
use lockhouse_core::{
    Acquire, AgentId, Command, Effect, Grant, Instant, LockManager, Name, NewAgent, NewLocks, NewRequest,
    Now, Outcome, Refusal, RequestId, RequestStatus,
};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::engine::absence::{Absence, SessionHash};
use crate::engine::bucket::deferred::{Deferred, DurableChange};
use crate::engine::bucket::delivery::announcements::Announcements;
use crate::engine::bucket::delivery::events::EventQueue;
use crate::engine::bucket::delivery::withheld::Withheld;
use crate::engine::bucket::durability::Durability;
use crate::engine::bucket::retention::{Housekeeping, Retention};
use crate::engine::bucket::wakeups::{ChangeSignal, Wakeups};
use crate::engine::commit::outbox::Outbox;
use crate::engine::inbox::Inbox;
use crate::engine::memory::{BudgetExceeded, MemoryReservation};
use crate::engine::waiters::Waiters;
use crate::loss::Loss;

/// A bucket behind its mutex.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) manager: LockManager<RandomState>,
    /// The locks that a list says to be held, and whose names have not come up yet.
    pub(super) absence: Option<Box<Absence>>,
    /// The memory that the manager takes, where that has a bound.
    memory: Option<MemoryReservation>,
    /// The latest time that the manager has seen.
    latest: Instant,
    /// Whether the ticker knows of this bucket.
    pub(super) is_ticked: bool,
    pub(super) waiters: Waiters,
    /// By agent slot: the inbox that gets the agent's notices; none for agents of this process.
    pub(super) inboxes: Vec<Option<Arc<Inbox>>>,
    pub(super) changes: ChangeSignal,
    pub(super) wakeups: Wakeups,
    /// Wakes those that wait for the end of the recovery, in the order in which they came.
    pub(super) recovered: Arc<Notify>,
    pub(super) announcements: Announcements,
    /// The changes and messages that wait for the store. Always idle in a bucket that is not durable.
    pub(super) outbox: Outbox<DurableChange, Deferred>,
    pub(super) withheld: Withheld,
    /// What happens, if there is someone who looks on.
    pub(super) events: Option<Box<EventQueue>>,
    pub(super) durability: Durability,
    sweep: Sweep,
    /// The last group by which locks became void.
    pub(super) voided_in: Option<u64>,
    pub(super) retention: Retention,
}

/// How far the void locks of a durable bucket have been swept.
#[derive(Debug)]
struct Sweep {
    /// The group with the last part, if the store has to keep it.
    group: Option<u64>,
    /// The tick that last allowed for parts, and how many of them are left.
    tick: Instant,
    parts: usize,
}

/// How many parts of a sweep may follow from one tick. A commit or a request of others that comes while a
/// part is written waits for it: so few of them that few others do, one in a hundred about.
const PARTS_PER_TICK: usize = 2;

/// A tick allows for more where very much is void: such a share of it, so that it cannot pile up.
const SWEPT_WITHIN_TICKS: usize = 900;

impl State {
    /// The state of a bucket in which nothing has happened but the restore of so many owners, claims and
    /// assignments.
    pub(super) fn new(
        manager: LockManager<RandomState>,
        absence: Option<Box<Absence>>,
        memory: Option<MemoryReservation>,
        durability: Durability,
        facts: usize,
    ) -> Self {
        let outbox = Outbox::new(manager.reserved_up_to());
        Self {
            manager,
            absence,
            memory,
            latest: Instant::default(),
            is_ticked: false,
            waiters: Waiters::default(),
            inboxes: Vec::new(),
            changes: ChangeSignal::default(),
            wakeups: Wakeups::default(),
            recovered: Arc::default(),
            announcements: Announcements::default(),
            outbox,
            withheld: Withheld::default(),
            events: None,
            durability,
            sweep: Sweep { group: None, tick: Instant::default(), parts: PARTS_PER_TICK },
            voided_in: None,
            retention: Retention::of(facts),
        }
    }

    #[inline]
    pub(crate) fn handle(&mut self, now: Now, command: Command<'_>) -> Outcome {
        let now = self.stamp(now);
        let is_change = !matches!(command, Command::Snapshot | Command::Renew { .. } | Command::Touch { .. });
        self.changes.is_due |= is_change;
        if self.absence.is_some() {
            self.hold_what_is_listed(&command);
        }
        let checked = self.check_command(&command);
        let reserved = checked.and_then(|()| self.reserve_memory(|manager| most_bytes(manager, &command)));
        if let Err(refusal) = reserved {
            let outcome = Outcome::Refused(refusal);
            self.manager.tally_command(&command, &outcome);
            return outcome;
        }
        let outcome = self.manager.handle(now, command);
        self.manager.tally_command(&command, &outcome);
        self.deliver_effects();
        if let Command::Request(NewRequest { name, .. }) = command {
            self.note_request(name, &outcome);
        }
        outcome
    }

    /// As [`handle`](Self::handle), for the commands of which there are most.
    #[inline]
    pub(super) fn request(&mut self, now: Now, request: &NewRequest<'_>) -> Result<Outcome, Refusal> {
        let now = self.stamp(now);
        self.changes.is_due = true;
        if self.absence.is_some() {
            self.hold_what_is_listed_under(&[request.name]);
        }
        if let Err(refusal) =
            self.check_request(request.agent, request.name, request.acquire == Acquire::Steal)
        {
            return self.refused(request, refusal);
        }
        if let Err(refusal) = self.reserve_memory(|_| request.most_bytes()) {
            return self.refused(request, refusal);
        }
        let outcome = self.manager.request_a_lock(now, request);
        self.manager.tally_request(request, &outcome);
        // Also of a request that is refused: a void lock may have ended for it.
        self.deliver_effects();
        let outcome = outcome?;
        self.note_request(request.name, &outcome);
        Ok(outcome)
    }

    /// Counts a request that its manager never sees.
    #[cold]
    fn refused(&mut self, request: &NewRequest<'_>, refusal: Refusal) -> Result<Outcome, Refusal> {
        let refused = Err(refusal);
        self.manager.tally_request(request, &refused);
        refused
    }

    /// The locks that are listed under that name are held from now on.
    pub(crate) fn name_comes_up(&mut self, now: Now, name: Name<'_>) {
        self.stamp(now);
        self.hold_what_is_listed_under(&[name]);
    }

    /// Names come up with that command: the locks that are listed under them are held from now on.
    #[cold]
    fn hold_what_is_listed(&mut self, command: &Command<'_>) {
        match command {
            Command::Request(request) => self.hold_what_is_listed_under(&[request.name]),
            Command::Reclaim(reclaim) => self.hold_what_is_listed_under(&[reclaim.name]),
            Command::Claim(claim) => self.hold_what_is_listed_under(&[claim.name]),
            Command::Lock(NewLocks { locks, .. }) => {
                locks.iter().for_each(|(name, _)| self.hold_what_is_listed_under(&[*name]));
            }
            // These grant nothing of a name that has not come up yet.
            _ => {}
        }
    }

    /// The locks that are listed under these names are held from now on.
    fn hold_what_is_listed_under(&mut self, names: &[Name<'_>]) {
        let (Some(absence), now) = (&mut self.absence, self.latest) else { return };
        for name in names {
            absence.name_comes_up(*name, |mode, token| self.manager.hold_absent(now, *name, mode, token));
        }
    }

    /// The client of that former session has reclaimed all that it still holds.
    pub(crate) fn has_reclaimed(&mut self, now: Now, session: SessionHash) {
        if self.absence.is_none() {
            return;
        }
        let now = self.stamp(now).tick();
        let Some(absence) = &mut self.absence else { return };
        self.changes.is_due = true;
        for token in absence.take_session(session) {
            self.manager.give_up_absent(now, token);
        }
        self.deliver_effects();
    }

    /// Whether remote agents may come back for locks that are not theirs again yet.
    pub(super) fn awaits_holders(&self) -> bool {
        let is_listed = self.absence.as_ref().is_some_and(|absence| !absence.is_empty());
        is_listed || self.manager.has_absent() || self.manager.is_recovering()
    }

    /// As [`handle`](Self::handle); whether the lock was held.
    #[inline]
    pub(super) fn release(&mut self, now: Now, request: RequestId) -> bool {
        let now = self.stamp(now);
        self.changes.is_due = true;
        let held = self.manager.release_the_lock(now, request);
        self.deliver_effects();
        held
    }

    /// Reserves memory for so many bytes more than are in use.
    #[inline]
    pub(super) fn reserve_memory(
        &mut self,
        more: impl FnOnce(&LockManager<RandomState>) -> usize,
    ) -> Result<(), Refusal> {
        let Some(memory) = &mut self.memory else { return Ok(()) };
        let more = more(&self.manager);
        if more == 0 {
            return Ok(());
        }
        memory
            .reserve(self.manager.bytes() + self.outbox.bytes() + more)
            .map_err(|BudgetExceeded { limit }| Refusal::BudgetExceeded { limit })
    }

    /// Settles the memory after a command or a tick: so many bytes there are now.
    #[inline]
    pub(super) fn settle_memory(&mut self) {
        if let Some(memory) = &mut self.memory {
            // Changes are soon gone: kept for them, memory would be there for the next command unasked.
            memory.settle(self.manager.bytes() + self.outbox.notice_bytes());
        }
    }

    /// Ends everything that is due at or before `due`, processes the queues that this leaves, and sweeps,
    /// each at most so many. A tick has so many beats. Returns whether that was all.
    pub(super) fn time_has_passed(&mut self, due: Instant, now: Now, most: usize, beats: usize) -> bool {
        let now = self.stamp(now);
        if self.manager.next_timeout().is_none_or(|next| next > due) {
            return true;
        }
        let is_done = self.manager.handle_timeout_in_part(due, now, most);
        self.changes.is_due |= self.manager.has_effects();
        while let Some(effect) = self.manager.poll_effect() {
            if matches!(effect, Effect::Change(_)) {
                // Each end stands for itself, so that a crowd of them need not fit into one commit.
                self.outbox.close_group();
            }
            self.deliver(effect);
        }
        self.after_effects();
        if due > self.sweep.tick {
            self.sweep.tick = due;
            self.allow_parts(beats);
        }
        self.sweep(now, most) && is_done
    }

    /// A beat between two ticks, one of so many: a sweep goes on. Returns whether void locks are left.
    pub(super) fn beat(&mut self, now: Now, beats: usize) -> bool {
        self.allow_parts(beats);
        self.sweep(now, usize::MAX);
        self.manager.has_void_locks() && !self.manager.is_closed()
    }

    /// The parts of a tick are spread over its beats: one after the other they would be a long time for those
    /// who come meanwhile.
    fn allow_parts(&mut self, beats: usize) {
        let share = self.manager.void_locks().div_ceil(self.swept_at_once() * SWEPT_WITHIN_TICKS);
        self.sweep.parts = share.max(PARTS_PER_TICK).div_ceil(beats);
    }

    /// Ends at most so many void locks: where they are durable, only as many as fit into one commit, the next
    /// ones once that commit is done, and so many parts at a tick. Returns whether there is nothing more to
    /// do until then.
    pub(super) fn sweep(&mut self, now: Now, most: usize) -> bool {
        let mut left = most;
        // A house that closes leaves the rest to the next start.
        while self.manager.has_void_locks() && !self.manager.is_closed() {
            let at_once = self.swept_at_once();
            let part = if matches!(self.durability, Durability::Durable(_)) {
                let is_under_way = self.sweep.group.is_some_and(|group| !self.outbox.is_durable(group));
                if is_under_way || self.sweep.parts == 0 {
                    return true;
                }
                self.sweep.parts -= 1;
                at_once
            } else if left == 0 {
                return false;
            } else {
                left.min(at_once)
            };
            self.outbox.close_group();
            let now = self.stamp(now);
            self.changes.is_due = true;
            self.manager.sweep(now, part);
            self.deliver_effects();
            self.sweep.group = (!self.outbox.is_idle()).then(|| self.outbox.last());
            left = left.saturating_sub(part);
        }
        true
    }

    fn swept_at_once(&self) -> usize {
        self.manager.limits().locks_ended_at_once.max(1)
    }

    pub(crate) fn status(&self, request: RequestId) -> RequestStatus {
        self.manager.status(request)
    }

    pub(crate) fn is_alive(&self, agent: AgentId) -> bool {
        self.manager.is_alive(agent)
    }

    pub(crate) fn manager(&self) -> &LockManager<RandomState> {
        &self.manager
    }

    pub(crate) fn waiters(&mut self) -> &mut Waiters {
        &mut self.waiters
    }

    /// Comes with the end of the recovery; none if the bucket does not recover.
    pub(crate) fn recovery_end(&self) -> Option<OwnedNotified> {
        self.manager.is_recovering().then(|| self.recovered.clone().notified_owned())
    }

    /// Whether a remote agent holds a web lock, or may come back for one.
    pub(super) fn is_held_remotely(&self) -> bool {
        self.awaits_holders() || self.manager.held_remotely() > 0
    }

    /// Time as the manager needs it: never backwards.
    #[inline]
    pub(super) fn stamp(&mut self, now: Now) -> Now {
        self.latest = self.latest.max(now.tick());
        self.manager.set_tally_time(self.latest);
        now.not_before(self.latest)
    }

    #[inline]
    fn deliver_effects(&mut self) {
        if self.manager.has_effects() {
            self.deliver_all();
        }
        self.after_effects();
    }

    fn deliver_all(&mut self) {
        while let Some(effect) = self.manager.poll_effect() {
            self.deliver(effect);
        }
    }

    #[inline]
    fn after_effects(&mut self) {
        if self.manager.is_empty() {
            self.waiters.all_gone();
        }
    }

    #[inline]
    fn deliver(&mut self, effect: Effect) {
        if let Effect::Granted { agent, grant: Grant { request, token } } = effect
            && self.outbox.is_idle()
            && !matches!(self.inboxes.get(agent.slot()), Some(Some(_)))
        {
            // By far the most.
            self.wakeups.add(self.waiters.granted(request, token, true));
            return;
        }
        self.deliver_rarer(effect);
    }

    /// Why everything is lost, if it is.
    #[inline]
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.durability.loss()
    }

    /// Whether nothing becomes durable any more that would have to. Such a bucket answers nothing: its state
    /// may be another's by now, or not what the store has.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.durability.is_over()
    }

    /// Work for the bucket that the house has not been notified of yet.
    #[inline]
    pub(super) fn take_housekeeping(&mut self) -> Option<Housekeeping> {
        let is_needed = self.is_needed();
        self.retention.take_housekeeping(is_needed)
    }

    /// Whether the bucket is needed. The house retains it exactly then.
    pub(super) fn settle_retention(&mut self) -> bool {
        let is_needed = self.is_needed();
        self.retention.settle(is_needed);
        is_needed
    }

    /// Whether there is something that the bucket must not be forgotten for.
    pub(super) fn is_needed(&self) -> bool {
        self.retention.has_facts() || self.manager.takes_reclaims()
    }

    /// The agent is about to end as its session was silent for its lease.
    pub(crate) fn agent_falls_silent(&mut self, agent: AgentId) {
        self.manager.tally_silent(agent);
    }

    /// The agent is about to end: its requests have no waiters or listeners any more.
    pub(super) fn forget_requests_of(&mut self, agent: AgentId) {
        let Self { manager, waiters, wakeups, .. } = self;
        for request in manager.requests_of(agent) {
            wakeups.listeners.extend(waiters.not_listened_to(request));
            wakeups.add(waiters.forget(request));
        }
    }
}

/// The memory that a command is charged for. Sessions have bounds of their own, and join even without memory
/// left: to look, and to give back. A reclaim was charged for before the restart.
fn most_bytes(manager: &LockManager<RandomState>, command: &Command<'_>) -> usize {
    match command {
        Command::Join(NewAgent { lease_ms: Some(_), .. }) | Command::Reclaim(_) => 0,
        Command::Join(_) if manager.takes_reclaims() => 0,
        command => manager.most_bytes_of(command),
    }
}
