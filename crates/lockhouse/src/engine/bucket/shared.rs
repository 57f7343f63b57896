//! One lock manager behind one mutex, as all handles of a bucket share it.

use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::SystemTime;

use foldhash::fast::RandomState;
use lockhouse_core::{
    Acquire, AgentId, Command, Instant, LockManager, NewAgent, NewRequest, Now, Outcome, Refusal, RequestId,
    RequestStatus, Totals, WebLockView,
};
use lockhouse_store::{HeldList, HeldWebLock, RefusalRecord, Scope, Write};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;
use tokio::task::block_in_place;

use crate::engine::absence::{Absence, NameHasher, SessionHash};
use crate::engine::bucket::deferred::{Deferred, DurableChange};
use crate::engine::bucket::delivery::HeldAnswer;
use crate::engine::bucket::durability::Durability;
use crate::engine::bucket::execute::{may_be_large, may_bring_a_deadline};
use crate::engine::bucket::results::{NotAsked, Reply, RequestResult};
use crate::engine::bucket::retention::Housekeeping;
use crate::engine::bucket::state::State;
use crate::engine::commit::batch::TakenChanges;
use crate::engine::environment::Environment;
use crate::engine::events::log::EventLog;
use crate::engine::inbox::{Inbox, Notice};
use crate::engine::key::BucketKey;
use crate::engine::memory::MemoryReservation;
use crate::engine::meters::{BucketReading, Metered};
use crate::engine::sync::Mutex;
use crate::engine::ticket::Tickets;
use crate::engine::waiters::Wait;
use crate::loss::Loss;

/// A step that ends or grants so many requests and locks is large.
const LARGE_STEP: usize = 10_000;

/// How often a sweep goes on from one tick to the next: its parts are apart from each other.
pub(crate) const BEATS: usize = 2;

/// What a tick has left in a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketTick {
    pub(crate) has_deadlines: bool,
    /// All ended that had to.
    pub(crate) is_done: bool,
    /// Void locks are left.
    pub(crate) is_sweeping: bool,
}

/// The part of a bucket that all its handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    key: BucketKey,
    /// The same as the store knows it.
    scope: Arc<Scope>,
    pub(crate) environment: Arc<Environment>,
    pub(super) house: Arc<dyn Host>,
    /// Its entry among the meters, if what happens is counted.
    metered: Option<Metered>,
    /// When it was put to use, from which on what happens is counted.
    began: Instant,
    /// What happens, once there is someone who looks on.
    pub(super) events: OnceLock<Arc<EventLog>>,
    pub(super) state: Mutex<State>,
}

/// The services that a bucket asks of its house. Called without the bucket's mutex.
pub(crate) trait Host: std::fmt::Debug + Send + Sync {
    /// The bucket has got its first deadline.
    fn watch_deadlines(self: Arc<Self>, bucket: &Arc<Shared>);

    /// Keeps the present runtime for the ticker. Panics outside a tokio runtime.
    fn remember_runtime(&self);

    /// The bucket has so many commands more to send to the store; the first since it was last asked, if
    /// `is_first`.
    fn enqueue(&self, bucket: &Arc<Shared>, is_first: bool, more: usize);

    /// Something was refused that the history of the store is to have.
    fn refused(&self, bucket: &Shared, record: RefusalRecord);

    /// Does the work that the bucket needs of the house now.
    fn keep_house(&self, bucket: &Arc<Shared>, what: Housekeeping);

    /// The last user of a bucket has gone. `forgotten`: its name in the store, if the store has no records of
    /// it any more.
    fn forget(&self, bucket: &Shared, last_token: u64, forgotten: Option<Arc<Scope>>);
}

impl Shared {
    /// A new bucket, which goes on with what is known to have happened in it before.
    pub(crate) fn new(
        key: BucketKey,
        environment: Arc<Environment>,
        house: Arc<dyn Host>,
        manager: LockManager<RandomState>,
        past: Option<Arc<EventLog>>,
    ) -> Self {
        let mut bucket = Self::restored(key, environment, house, manager, None, 0, false);
        if let (Some(log), Some(bounds)) = (past, bucket.environment.bounds.events) {
            bucket.events = OnceLock::from(log.clone());
            let memory = bucket.environment.reservation_of(bucket.key.tenant());
            bucket.state.get_mut().start_events(log, bounds, memory);
        }
        bucket
    }

    /// A bucket that the store knows of if `is_known`, with so many owners, claims and assignments.
    pub(crate) fn restored(
        key: BucketKey,
        environment: Arc<Environment>,
        house: Arc<dyn Host>,
        mut manager: LockManager<RandomState>,
        absence: Option<Box<Absence>>,
        facts: usize,
        is_known: bool,
    ) -> Self {
        let memory = environment.reservation_of(key.tenant());
        let metered = environment.bounds.meters.as_ref().map(|meters| meters.enter(&key.bucket));
        if metered.is_some() {
            manager.start_tally();
        }
        let durability = match environment.store {
            Some(_) => Durability::durable(is_known),
            None => Durability::Volatile,
        };
        let mut state = State::new(manager, absence, memory, durability, facts);
        let (scope, events) = (Arc::new(key.scope()), OnceLock::new());
        if let Some(bounds) = environment.bounds.events {
            let memory = || environment.reservation_of(key.tenant());
            let log = EventLog::new(bounds, memory());
            state.start_events(events.get_or_init(|| Arc::new(log)).clone(), bounds, memory());
        }
        let began = environment.clock.now();
        Self { key, scope, environment, house, metered, began, events, state: Mutex::new(state) }
    }

    pub(crate) fn key(&self) -> &BucketKey {
        &self.key
    }

    /// Its name in the store, to be kept.
    pub(crate) fn shared_scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Carries out a command of an agent of this process whose answer is not needed.
    #[inline]
    pub(crate) fn handle(self: &Arc<Self>, command: Command<'_>) -> Outcome {
        self.with(|state| state.handle(self.environment.clock.stamp(), command))
    }

    /// Carries out a command, which is written or not. An answer that rests on something uncommitted waits,
    /// and holds that memory meanwhile; `look` sees it before. Not asked: nothing has happened.
    pub(crate) fn ask(
        self: &Arc<Self>,
        command: Command<'_>,
        is_written: bool,
        memory: Option<Arc<MemoryReservation>>,
        look: impl FnOnce(&Outcome),
    ) -> Result<Reply, NotAsked> {
        let ask = |state: &mut State| {
            if state.is_over() {
                return Err(NotAsked::IsOver);
            }
            if is_written && state.has_backlog() {
                return Err(NotAsked::TooMuchWaits);
            }
            let outcome = state.handle(self.environment.clock.stamp(), command);
            look(&outcome);
            state.reply(&command, outcome, memory)
        };
        if !matches!(command, Command::Break(_)) {
            return self.with_housekeeping(ask);
        }
        let size = |state: &State| state.manager().size_of_step(&command, LARGE_STEP);
        self.in_place(size, || self.with_housekeeping(ask))
    }

    /// Carries out a command of an owner or a claimant whose answer is not needed.
    pub(crate) fn execute(self: &Arc<Self>, command: Command<'_>) {
        self.with_housekeeping(|state| state.handle(self.environment.clock.stamp(), command));
    }

    /// Makes a request of an agent of this process; if it has to wait, that waker is woken at its end.
    #[inline]
    pub(crate) fn request(self: &Arc<Self>, request: &NewRequest<'_>, waker: &Waker) -> RequestResult {
        let tick = self.environment.clock.now();
        let make = |state: &mut State| {
            let now = self.stamp(state, tick, request.max_hold_ms.is_some());
            let outcome = state.request(now, request);
            match outcome {
                Ok(Outcome::Granted(grant)) if state.outbox.is_idle() => RequestResult::Granted(grant),
                Ok(Outcome::Queued(id)) if !state.is_over() => {
                    let displaced = state.waiters().wait(id, waker);
                    debug_assert!(displaced.is_none(), "the cell of a new request was not idle");
                    RequestResult::Waits(id)
                }
                outcome => state.made_rarer(now, request, outcome, waker),
            }
        };
        if request.acquire != Acquire::Steal {
            return self.with(make);
        }
        let size = |state: &State| state.manager().size_of_step(&Command::Request(*request), LARGE_STEP);
        self.in_place(size, || self.with(make))
    }

    /// Releases the lock of a guard; why it was lost, if it was.
    #[inline]
    pub(crate) fn release(self: &Arc<Self>, request: RequestId) -> Option<Loss> {
        let tick = self.environment.clock.now();
        let (loss, displaced) = self.with(|state| {
            let held = state.release(self.stamp(state, tick, false), request);
            let loss = state.loss().or_else(|| (!held).then(|| state.waiters().loss_of(request)));
            (loss, state.waiters().guard_dropped(request))
        });
        drop(displaced);
        loss
    }

    /// Ends a request wherever it stands: pending, or granted without its future having taken note.
    pub(crate) fn withdraw(self: &Arc<Self>, request: RequestId) {
        let wakers = self.with(|state| {
            let now = self.environment.clock.stamp();
            let displaced = state.waiters().guard_dropped(request);
            let command = match state.status(request) {
                // The request's cell may be another's by now.
                RequestStatus::Ended => return (displaced, None),
                RequestStatus::Pending => Command::Abort { request },
                RequestStatus::Held(_) => Command::Release { request },
            };
            let waker = state.waiters().forget(request);
            state.handle(now, command);
            (displaced, waker)
        });
        drop(wakers);
    }

    /// The state of a request that had to wait. If it still waits, that waker is woken at its end.
    pub(crate) fn poll(self: &Arc<Self>, request: RequestId, waker: Option<&Waker>) -> Wait {
        let (wait, displaced) = self.with(|state| match state.loss() {
            Some(why) => (Wait::Over(why), None),
            None => {
                let (status, is_over) = (state.status(request), state.is_over());
                match state.waiters().look(request, status, waker) {
                    // Nor is it told of a grant whose token could not be made durable.
                    (Wait::Pending, displaced) if is_over => (Wait::Refused(Refusal::Closed), displaced),
                    looked => looked,
                }
            }
        });
        drop(displaced);
        wait
    }

    /// Carries out a command of a port's agent. The outcome goes into its inbox, in order with all notices
    /// about the same name. False if the manager does not fit, under the same mutex: nothing has happened
    /// then.
    pub(crate) fn submit(
        self: &Arc<Self>,
        inbox: &Arc<Inbox>,
        tag: u64,
        command: Command<'_>,
        fits: impl FnOnce(&LockManager<RandomState>) -> bool,
    ) -> bool {
        if may_bring_a_deadline(&command) {
            self.remember_runtime();
        }
        let lease_ms = self.unknown_lease(&command);
        let submit = |state: &mut State| {
            if !fits(state.manager()) {
                return false;
            }
            let checked = if lease_ms.is_some() { state.check_waiting(0) } else { Ok(()) };
            if let (Some(ms), Ok(())) = (lease_ms, &checked) {
                state.keep(DurableChange::LongestLease { ms });
            }
            let outcome = match checked {
                Ok(()) => state.handle(self.environment.clock.stamp(), command),
                Err(refusal) => Outcome::Refused(refusal),
            };
            match outcome {
                Outcome::Joined(agent) => state.route(agent, Some(inbox.clone())),
                Outcome::Ended { alive: true } => {
                    if let Command::End { agent } = command {
                        state.route(agent, None);
                        inbox.forget(agent);
                    }
                }
                Outcome::Refused(_) if matches!(command, Command::Reclaim(_)) => inbox.refuse_reclaim(),
                _ => {}
            }
            let has_joined = matches!(outcome, Outcome::Joined(_));
            state.answer(inbox, tag, &command, outcome);
            if let Some(why) = state.loss().filter(|_| has_joined) {
                state.announce(inbox, Notice::Over(why));
            }
            true
        };
        if !may_be_large(&command) {
            return self.with(submit);
        }
        let size = |state: &State| state.manager().size_of_step(&command, LARGE_STEP);
        self.in_place(size, || self.with(submit))
    }

    /// Looks at all there is, for a port. The answer holds that memory as long as it waits.
    pub(crate) fn look(self: &Arc<Self>, inbox: &Arc<Inbox>, tag: u64, memory: Arc<MemoryReservation>) {
        self.with(|state| {
            let outcome = state.handle(self.environment.clock.now().into(), Command::Snapshot);
            let deferred = |outcome| {
                let notice = Notice::Answer { tag, outcome };
                Deferred::Port { inbox: inbox.clone(), notice, memory: Some(memory) }
            };
            match state.hold_answer(&Command::Snapshot, outcome, deferred) {
                HeldAnswer::Passes(deferred) => _ = state.hand_over(deferred),
                HeldAnswer::Waits => {}
                HeldAnswer::TooMuchWaits(refusal) => {
                    let notice = Notice::Answer { tag, outcome: Outcome::Refused(refusal) };
                    state.announce(inbox, notice);
                }
            }
        });
    }

    /// The time of one of the commands of which there are most. The tick alone will do, which is read faster
    /// and before others have to wait for it, if no deadline can begin: neither one of the command itself nor
    /// one of a waiting request.
    #[inline]
    fn stamp(&self, state: &State, tick: Instant, sets_deadline: bool) -> Now {
        let may_begin = sets_deadline || state.manager().may_set_deadline();
        if may_begin { self.environment.clock.stamp() } else { tick.into() }
    }

    /// The length of a lease that the command gives and that the store has to know of before.
    fn unknown_lease(&self, command: &Command<'_>) -> Option<u64> {
        let Command::Join(NewAgent { lease_ms: Some(ms), .. }) = command else { return None };
        self.environment.store.as_ref().filter(|store| !store.knows_lease(*ms)).map(|_| *ms)
    }

    /// Ends an agent of this process, whose futures and guards are then notified.
    pub(crate) fn end(self: &Arc<Self>, agent: AgentId) {
        let end = |state: &mut State| {
            state.forget_requests_of(agent);
            state.handle(self.environment.clock.stamp(), Command::End { agent });
        };
        let size = |state: &State| state.manager().size_of_step(&Command::End { agent }, LARGE_STEP);
        self.in_place(size, || self.with(end));
    }

    /// Runs a step apart from the other tasks of its worker thread, if it is large and the house does so.
    fn in_place<T>(&self, size: impl FnOnce(&State) -> usize, step: impl FnOnce() -> T) -> T {
        let runs_apart = self.environment.bounds.block_in_place
            && size(&self.state.lock()) >= LARGE_STEP
            && Handle::try_current().is_ok_and(|at| at.runtime_flavor() == RuntimeFlavor::MultiThread);
        if runs_apart { block_in_place(step) } else { step() }
    }

    /// Runs under the mutex. Whom that wakes is woken after it, as a waker may come back for the mutex.
    #[inline]
    pub(crate) fn with<T>(self: &Arc<Self>, run: impl FnOnce(&mut State) -> T) -> T {
        let (result, mut has_more) = self.hold(run);
        while has_more {
            // Others may use the bucket in between.
            ((), has_more) = self.hold(State::announce_more);
        }
        result
    }

    /// One hold of the mutex; whether there are notices still to be announced.
    #[inline]
    pub(super) fn hold<T>(self: &Arc<Self>, run: impl FnOnce(&mut State) -> T) -> (T, bool) {
        let mut state = self.state.lock();
        let result = run(&mut state);
        let has_more = state.end_announcements();
        let gathered = state.events.is_some().then(|| state.gather_events(&self.environment.clock));
        state.settle_memory();
        let has_first_deadline = !state.is_ticked && state.manager().next_timeout().is_some();
        state.is_ticked |= has_first_deadline;
        let changed = state.changes.take();
        let wakeups = state.wakeups.take();
        let (is_to_send, more) = if state.outbox.is_idle() { (false, 0) } else { state.close_group() };
        drop(state);
        if let Some(wakeups) = wakeups {
            wakeups.run();
        }
        if let Some(changed) = changed {
            changed.send_replace(());
        }
        if let Some(gathered) = gathered {
            self.pass_on(gathered);
        }
        if has_first_deadline {
            self.house.clone().watch_deadlines(self);
        }
        if more > 0 {
            self.house.enqueue(self, is_to_send, more);
        }
        (result, has_more)
    }

    /// Lets the ticker run in this runtime, should this use of the bucket set a deadline.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn remember_runtime(&self) {
        self.house.remember_runtime();
    }

    /// A tick of the lease clock, which ends at most so many.
    pub(crate) fn tick(self: &Arc<Self>, due: Instant, most: usize) -> BucketTick {
        let beats = if self.environment.clock.is_manual() { 1 } else { BEATS };
        let tick = |state: &mut State| {
            let is_done = state.time_has_passed(due, self.environment.clock.stamp(), most, beats);
            state.is_ticked = state.manager().next_timeout().is_some() && !state.is_over();
            let is_sweeping = state.manager().has_void_locks();
            BucketTick { has_deadlines: state.is_ticked, is_done, is_sweeping }
        };
        let size = |state: &State| state.manager().size_of_next_end(due);
        self.in_place(size, || self.with_housekeeping(tick))
    }

    /// A beat between two ticks, in which a sweep goes on. Whether more of them are needed.
    pub(crate) fn beat(self: &Arc<Self>) -> bool {
        self.with_housekeeping(|state| state.beat(self.environment.clock.stamp(), BEATS))
    }

    /// As [`with`](Self::with), for changes that the house may have to know of. The house is notified of
    /// them.
    pub(super) fn with_housekeeping<T>(self: &Arc<Self>, run: impl FnOnce(&mut State) -> T) -> T {
        let (result, housekeeping) = self.with(|state| (run(state), state.take_housekeeping()));
        if let Some(what) = housekeeping {
            self.house.keep_house(self, what);
        }
        result
    }

    /// Whether the house has to retain the bucket, which is settled with that.
    pub(crate) fn settle_retention(&self) -> bool {
        self.state.lock().settle_retention()
    }

    /// Moves a share of the unwritten changes to `writes`.
    pub(crate) fn take_changes(&self, share: usize, writes: &mut Vec<Write>) -> TakenChanges {
        let mut changes = Vec::new();
        let mut state = self.state.lock();
        let taken = state.take(share, &mut changes);
        drop(state);
        writes.extend(
            changes.into_iter().map(|change| change.into_write(&self.scope, &self.environment.clock)),
        );
        taken
    }

    /// The changes that were taken are durable.
    pub(crate) fn committed(self: &Arc<Self>) {
        let replies = self.with_housekeeping(|state| state.committed(self.environment.clock.stamp()));
        for reply in replies {
            // A caller that has gone meanwhile needs no answer.
            if let Deferred::Reply { to, outcome, .. } = reply {
                _ = to.send(outcome);
            }
        }
    }

    /// The house has lost its store, and with it every lock; or it was closed, and no client gets notices any
    /// more.
    pub(crate) fn is_over(self: &Arc<Self>, why: Option<&Loss>) {
        let dropped = self.with(|state| match why {
            Some(why) => state.lose_everything(self.environment.clock.stamp(), why),
            None => state.keep_no_more(self.environment.clock.stamp()),
        });
        drop(dropped);
    }

    /// Why every lock is lost, if the house has lost its store.
    pub(crate) fn why_over(&self) -> Option<Loss> {
        self.state.lock().loss()
    }

    /// Whether remote agents may come back for locks that are not theirs again yet.
    pub(crate) fn awaits_holders(self: &Arc<Self>) -> bool {
        self.with(|state| state.awaits_holders())
    }

    /// Whether a remote agent holds a web lock, or may come back for one.
    pub(crate) fn is_held_remotely(self: &Arc<Self>) -> bool {
        self.with(|state| state.is_held_remotely())
    }

    /// The web locks that remote agents hold, by hashes. None if others may come back for locks, too, or if a
    /// lock is of no session that could be recognised.
    pub(crate) fn held_list(self: &Arc<Self>) -> Option<(Arc<Scope>, Vec<HeldWebLock>)> {
        let names = NameHasher::new(self.environment.secret_key().ok()?, &self.key);
        let locks = self.with(|state| {
            if state.awaits_holders() || state.manager().held_remotely() > HeldList::MOST_LOCKS {
                return None;
            }
            let lock = |(agent, lock): (AgentId, WebLockView<'_>)| {
                let SessionHash(session) = state.inbox_of(agent)?.session()?;
                let (name, mode, token) = (names.hash(lock.name), lock.mode, lock.token);
                Some(HeldWebLock { name, session, mode, token })
            };
            state.manager().remote_web_locks().map(lock).collect::<Option<Vec<_>>>()
        })?;
        Some((Arc::clone(&self.scope), locks))
    }

    /// The hash by which a later life recognises a session with that secret; none if nothing outlives this
    /// one.
    pub(crate) fn session_hash(&self, secret: &str) -> Option<SessionHash> {
        self.tickets()?;
        self.environment.secret_key().ok().map(|key| SessionHash::of(key, secret))
    }

    /// Its entry among the meters, if what happens is counted.
    pub(crate) fn metered(&self) -> Option<&Metered> {
        self.metered.as_ref()
    }

    /// When it was put to use.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// What there is, and in `totals` what has happened. O(1).
    pub(crate) fn read_meters(&self, totals: &mut Totals) -> BucketReading {
        let state = self.state.lock();
        let manager = state.manager();
        let (gauges, is_recovering) = (manager.gauges(), manager.takes_reclaims());
        if let Some(counted) = manager.totals() {
            *totals = *counted;
        }
        drop(state);
        let now_ms = self.environment.clock.now().as_millis();
        let waits_ms = |since: Instant| now_ms.saturating_sub(since.as_millis());
        BucketReading { gauges, longest_wait_ms: gauges.waits_since.map_or(0, waits_ms), is_recovering }
    }

    /// How many requests and locks there are.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().manager().len()
    }

    /// How many bytes of memory a snapshot takes at most, about.
    pub(crate) fn bytes_of_snapshot(&self) -> usize {
        self.state.lock().manager().bytes_of_snapshot()
    }

    /// Marked as changed after every command that may have changed something.
    pub(crate) fn changed(&self) -> watch::Receiver<()> {
        self.state.lock().changes.subscribe()
    }

    pub(crate) fn ticker_is_gone(&self) {
        self.state.lock().is_ticked = false;
    }

    pub(crate) fn tickets(&self) -> Option<&Tickets> {
        self.environment.tickets.as_ref()
    }

    pub(crate) fn wall(&self, at: Instant) -> SystemTime {
        self.environment.clock.wall(at)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let (Some(metered), Some(totals)) = (&self.metered, state.manager().totals()) {
            metered.leave(totals);
        }
        let last_token = state.last_token();
        let forgotten = state.is_to_be_dropped().then(|| self.scope.clone());
        self.house.forget(self, last_token, forgotten);
    }
}
