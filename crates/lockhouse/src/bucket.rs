//! A bucket: one lock manager behind one mutex, and the way from its effects to those whom they concern.
//!
//! ```text
//!   command ─▶ [mutex: stamp now, handle, route effects] ─▶ outcome
//!                                     │
//!               a future's waker ◀────┴────▶ a port's inbox          wakers run after the mutex is free
//! ```

use std::sync::Arc;
use std::task::Waker;
use std::time::SystemTime;

use foldhash::fast::RandomState;
use lockhouse_core::{
    AgentId, Command, Effect, Grant, Instant, Limits, LockManager, NewRequest, Outcome, Refusal, RequestId,
    Standing,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::agent::Agent;
use crate::error::Quota;
use crate::house::{BucketKey, Inner};
use crate::port::{Inbox, Notice, Port};
use crate::waiters::{Loss, Wait, Waiters};

/// One name space of locks. <https://w3c.github.io/web-locks/#lock-manager>. Cheap to clone; every clone is the same bucket.
#[derive(Clone, Debug)]
pub struct Bucket(pub(crate) Arc<Shared>);

/// What all handles of a bucket share.
#[derive(Debug)]
pub(crate) struct Shared {
    key: BucketKey,
    house: Arc<Inner>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    manager: LockManager<RandomState>,
    latest: Instant,
    /// Whether the ticker knows of this bucket.
    ticked: bool,
    waiters: Waiters,
    /// By agent slot: the inbox that hears for the agent; none for agents of this process.
    inboxes: Vec<Option<Arc<Inbox>>>,
    changed: Option<watch::Sender<()>>,
    /// Whether something may have changed since the watchers were told.
    touched: bool,
    /// Who is to be woken once the mutex is free.
    wakers: Vec<Waker>,
    /// Whose listeners are to be told then.
    heard: Vec<Arc<Notify>>,
}

impl Bucket {
    /// A new agent of this process. It has no lease: it lives until it is dropped.
    ///
    /// # Errors
    ///
    /// [`Quota`] if the bucket has as many agents as its limits allow, or the label has more than 256 bytes.
    pub fn agent(&self, client_id: &str) -> Result<Agent, Quota> {
        Agent::join(self.0.clone(), client_id)
    }

    /// A port for a session of the outside, whose inbox holds at most `capacity` notices.
    pub fn port(&self, capacity: usize) -> Port {
        Port::new(self.clone(), capacity)
    }

    /// What separates this bucket from others.
    pub fn key(&self) -> &BucketKey {
        &self.0.key
    }

    /// Now, by the clock that leases run by.
    pub fn now(&self) -> Instant {
        self.0.house.clock.now()
    }

    /// When that was, or will be, by the calendar.
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.0.house.clock.wall(at)
    }

    /// How many requests and locks there are.
    pub fn len(&self) -> usize {
        self.0.state.lock().manager.len()
    }

    /// Whether nothing is held and nothing pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether anything is held. Looks at every lock and request.
    pub fn has_held(&self) -> bool {
        matches!(self.0.handle(Command::Snapshot), Outcome::Snapshot(snapshot) if !snapshot.held.is_empty())
    }

    /// Nothing is granted any more: what waits goes on waiting, the rest is refused.
    pub fn close(&self) {
        self.0.handle(Command::Close);
    }

    /// Marked as changed after every command that may have changed something; snapshots and renewals are none.
    pub fn changed(&self) -> watch::Receiver<()> {
        self.0.state.lock().changed.get_or_insert_with(|| watch::Sender::new(())).subscribe()
    }
}

impl Shared {
    pub(crate) fn new(key: BucketKey, house: Arc<Inner>, limits: Limits, token_mark: u64) -> Self {
        let mut manager = LockManager::with_limits(RandomState::default(), limits);
        manager.continue_tokens_above(token_mark);
        let state = State {
            manager,
            latest: Instant::default(),
            ticked: false,
            waiters: Waiters::default(),
            inboxes: Vec::new(),
            changed: None,
            touched: false,
            wakers: Vec::new(),
            heard: Vec::new(),
        };
        Self { key, house, state: Mutex::new(state) }
    }

    /// Carries out a command of an agent of this process.
    #[inline]
    pub(crate) fn handle(self: &Arc<Self>, command: Command<'_>) -> Outcome {
        self.with(|state| state.handle(self.house.clock.now(), command))
    }

    /// Makes a request of an agent of this process; if it has to wait, that waker is woken at its end.
    #[inline]
    pub(crate) fn request(
        self: &Arc<Self>,
        request: &NewRequest<'_>,
        waker: &Waker,
    ) -> Result<Outcome, Refusal> {
        self.with(|state| {
            let outcome = state.request(self.house.clock.now(), request);
            if let Ok(Outcome::Queued(request)) = outcome {
                let displaced = state.waiters.wait(request, waker);
                debug_assert!(displaced.is_none(), "the cell of a new request was not idle");
            }
            outcome
        })
    }

    /// Releases the lock of a guard; why it was lost, if it was.
    #[inline]
    pub(crate) fn release(self: &Arc<Self>, request: RequestId) -> Option<Loss> {
        self.with(|state| {
            let held = state.release(self.house.clock.now(), request);
            let loss = (!held).then(|| state.waiters.loss_of(request));
            state.waiters.guard_dropped(request);
            loss
        })
    }

    /// Ends a request wherever it stands: pending, or granted without its future having taken note.
    pub(crate) fn withdraw(self: &Arc<Self>, request: RequestId) {
        let waker = self.with(|state| {
            let now = self.house.clock.now();
            state.waiters.guard_dropped(request);
            let command = match state.manager.standing(request) {
                // Its cell may be another's by now.
                Standing::Ended => return None,
                Standing::Pending => Command::Abort { request },
                Standing::Held(_) => Command::Release { request },
            };
            let waker = state.waiters.forget(request);
            state.handle(now, command);
            waker
        });
        drop(waker);
    }

    /// What has become of a request that had to wait; if it still waits, that waker is woken at its end.
    pub(crate) fn poll(self: &Arc<Self>, request: RequestId, waker: Option<&Waker>) -> Wait {
        let (wait, displaced) = self.with(|state| {
            let standing = state.manager.standing(request);
            let wait =
                state.waiters.take_grant(request, standing == Standing::Pending, standing == Standing::Ended);
            let displaced = match (&wait, waker) {
                (Wait::Pending, Some(waker)) => state.waiters.wait(request, waker),
                _ => None,
            };
            (wait, displaced)
        });
        drop(displaced);
        wait
    }

    /// Carries out a command of a port's agent: the outcome goes into its inbox, in order with all it is told.
    pub(crate) fn submit(self: &Arc<Self>, inbox: &Arc<Inbox>, tag: u64, command: Command<'_>) {
        if may_bring_a_deadline(&command) {
            self.remember_runtime();
        }
        self.with(|state| {
            let outcome = state.handle(self.house.clock.now(), command);
            match outcome {
                Outcome::Joined(agent) => state.route(agent, Some(inbox.clone())),
                Outcome::Ended { alive: true } => {
                    if let Command::End { agent } = command {
                        state.route(agent, None);
                        inbox.forget(agent);
                    }
                }
                _ => {}
            }
            state.wakers.extend(inbox.push(Notice::Answer { tag, outcome }));
        });
    }

    /// Ends an agent of this process, whose futures and guards then hear of it.
    pub(crate) fn end(self: &Arc<Self>, agent: AgentId) {
        self.with(|state| {
            let State { manager, waiters, wakers, heard, .. } = state;
            for request in manager.requests_of(agent) {
                heard.extend(waiters.not_listened_to(request));
                wakers.extend(waiters.forget(request));
            }
            state.handle(self.house.clock.now(), Command::End { agent });
        });
    }

    /// Runs under the mutex. Whom that wakes is woken after it, as a waker may come back for the mutex.
    #[inline]
    pub(crate) fn with<T>(self: &Arc<Self>, run: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = run(&mut state);
        let has_first_deadline = !state.ticked && state.manager.next_timeout().is_some();
        state.ticked |= has_first_deadline;
        let changed = if std::mem::take(&mut state.touched) { state.changed.clone() } else { None };
        let wakers = std::mem::take(&mut state.wakers);
        let heard = std::mem::take(&mut state.heard);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        heard.iter().for_each(|heard| heard.notify_waiters());
        if let Some(changed) = changed {
            changed.send_replace(());
        }
        if has_first_deadline {
            self.house.watch_deadlines(self);
        }
        result
    }

    /// Lets the ticker run in this runtime, should a deadline come of what is asked for here.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn remember_runtime(&self) {
        self.house.remember_runtime();
    }

    /// A tick of the lease clock; false if no deadline is left.
    pub(crate) fn tick(self: &Arc<Self>, judged_by: Instant) -> bool {
        self.with(|state| {
            let now = state.stamp(judged_by);
            if state.manager.next_timeout().is_some_and(|next| next <= now) {
                state.manager.handle_timeout(now);
                state.touched = true;
                state.deliver_effects();
            }
            state.ticked = state.manager.next_timeout().is_some();
            state.ticked
        })
    }

    pub(crate) fn ticker_is_gone(&self) {
        self.state.lock().ticked = false;
    }

    pub(crate) fn wall(&self, at: Instant) -> SystemTime {
        self.house.clock.wall(at)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.house.forget(&self.key, self.state.get_mut().manager.last_token());
    }
}

impl State {
    #[inline]
    pub(crate) fn handle(&mut self, now: Instant, command: Command<'_>) -> Outcome {
        let now = self.stamp(now);
        self.touched |= !matches!(command, Command::Snapshot | Command::Renew { .. });
        let outcome = self.manager.handle(now, command);
        self.deliver_effects();
        outcome
    }

    /// As [`handle`](Self::handle), for the commands of which there are most.
    #[inline]
    fn request(&mut self, now: Instant, request: &NewRequest<'_>) -> Result<Outcome, Refusal> {
        let now = self.stamp(now);
        self.touched = true;
        let outcome = self.manager.request_a_lock(now, request);
        self.deliver_effects();
        outcome
    }

    /// As [`handle`](Self::handle); whether the lock was held.
    #[inline]
    fn release(&mut self, now: Instant, request: RequestId) -> bool {
        let now = self.stamp(now);
        self.touched = true;
        let held = self.manager.release_the_lock(now, request);
        self.deliver_effects();
        held
    }

    pub(crate) fn standing(&self, request: RequestId) -> Standing {
        self.manager.standing(request)
    }

    pub(crate) fn is_alive(&self, agent: AgentId) -> bool {
        self.manager.is_alive(agent)
    }

    pub(crate) fn waiters(&mut self) -> &mut Waiters {
        &mut self.waiters
    }

    /// Time as the manager needs it: never backwards.
    #[inline]
    fn stamp(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    #[inline]
    fn deliver_effects(&mut self) {
        while let Some(effect) = self.manager.poll_effect() {
            self.deliver(effect);
        }
        if self.manager.is_empty() {
            self.waiters.all_gone();
        }
    }

    fn deliver(&mut self, effect: Effect) {
        let agent = match effect {
            Effect::Granted { agent, .. }
            | Effect::Lost { agent, .. }
            | Effect::AgentEnded { agent, .. }
            | Effect::Unavailable { agent, .. } => agent,
            // Buckets of memory alone keep nothing and never recover.
            Effect::Change(_) | Effect::Recovered => return,
        };
        if let Some(Some(inbox)) = self.inboxes.get(agent.slot()) {
            let has_ended = matches!(effect, Effect::AgentEnded { .. });
            self.wakers.extend(inbox.push(Notice::Effect(effect)));
            if has_ended {
                self.route(agent, None);
            }
            return;
        }
        match effect {
            Effect::Granted { grant: Grant { request, token }, .. } => {
                self.wakers.extend(self.waiters.granted(request, token));
            }
            Effect::Lost { request, reason, .. } => {
                self.heard.extend(self.waiters.lost(request, Loss::from(reason)));
            }
            // Agents of this process have no lease.
            Effect::AgentEnded { .. }
            | Effect::Unavailable { .. }
            | Effect::Change(_)
            | Effect::Recovered => {}
        }
    }

    fn route(&mut self, agent: AgentId, inbox: Option<Arc<Inbox>>) {
        let slot = agent.slot();
        if self.inboxes.len() <= slot {
            if inbox.is_none() {
                return;
            }
            self.inboxes.resize(slot + 1, None);
        }
        self.inboxes[slot] = inbox;
    }
}

fn may_bring_a_deadline(command: &Command<'_>) -> bool {
    match command {
        Command::Join(agent) => agent.lease_ms.is_some(),
        Command::Request(request) => request.max_hold_ms.is_some(),
        _ => false,
    }
}
