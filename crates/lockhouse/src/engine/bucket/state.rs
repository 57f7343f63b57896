//! What is under a bucket's mutex: the lock manager, those who wait for it, and the outbox between them.

use std::sync::Arc;
use std::task::Waker;

use foldhash::fast::RandomState;
use lockhouse_core::{
    AgentId, Change, Command, Effect, Grant, Instant, LockManager, Name, NewAgent, NewReclaim, NewRequest,
    Outcome, Party, Refusal, RequestId, Standing,
};
use tokio::sync::{Notify, oneshot, watch};

use super::news::News;
use super::parcel::{About, Item, Parcel};
use super::results::Made;
use crate::engine::commit::outbox::Outbox;
use crate::engine::inbox::{Inbox, Notice};
use crate::engine::memory::{NoRoom, Room};
use crate::engine::waiters::Waiters;
use crate::loss::Loss;

#[derive(Debug)]
pub(crate) struct State {
    pub(super) manager: LockManager<RandomState>,
    /// What it takes, where that has a bound.
    room: Option<Room>,
    latest: Instant,
    /// Whether the ticker knows of this bucket.
    pub(super) ticked: bool,
    pub(super) waiters: Waiters,
    /// By agent slot: the inbox that hears for the agent; none for agents of this process.
    inboxes: Vec<Option<Arc<Inbox>>>,
    pub(super) changed: Option<watch::Sender<()>>,
    /// Whether something may have changed since the watchers were told.
    pub(super) touched: bool,
    /// Who is to be woken once the mutex is free.
    pub(super) wakers: Vec<Waker>,
    /// Whose listeners are to be told then.
    pub(super) heard: Vec<Arc<Notify>>,
    /// What has to wait until the store has kept what it rests on. Always idle in a house without a store.
    pub(super) outbox: Outbox<Item, Parcel>,
    /// Whether the pipeline knows that there is something to send.
    pub(super) queued: bool,
    /// How many commands the pipeline knows of that are to be sent.
    reported: usize,
    /// Whether there is a store that keeps changes.
    is_kept: bool,
    /// Whether ports may be told of web locks: the store knows that this bucket has to recover after a crash.
    told: bool,
    /// The group of changes that makes it so.
    told_in: Option<u64>,
    /// How many owners, claims and assignments there are.
    facts: usize,
    /// Whether the store may know of this bucket.
    pub(super) is_known: bool,
    /// Whether a recovery has ended that the house has not been told of yet.
    has_recovered: bool,
    /// Whether the house keeps this bucket from being forgotten.
    is_noted: bool,
    /// Why everything is lost, if the house has lost its store.
    pub(super) over: Option<Loss>,
}

impl State {
    /// Of a manager in which nothing has happened but what was kept. `is_kept`: whether there is a store; `facts`: how many owners, claims
    /// and assignments there are; `is_known`: whether the store knows of the bucket.
    pub(super) fn new(
        manager: LockManager<RandomState>,
        room: Option<Room>,
        is_kept: bool,
        facts: usize,
        is_known: bool,
    ) -> Self {
        let outbox = Outbox::new(manager.reserved_up_to());
        Self {
            manager,
            room,
            latest: Instant::default(),
            ticked: false,
            waiters: Waiters::default(),
            inboxes: Vec::new(),
            changed: None,
            touched: false,
            wakers: Vec::new(),
            heard: Vec::new(),
            outbox,
            queued: false,
            reported: 0,
            is_kept,
            told: !is_kept,
            told_in: None,
            facts,
            is_known,
            has_recovered: false,
            is_noted: false,
            over: None,
        }
    }

    #[inline]
    pub(crate) fn handle(&mut self, now: Instant, command: Command<'_>) -> Outcome {
        let now = self.stamp(now);
        self.touched |= !matches!(command, Command::Snapshot | Command::Renew { .. } | Command::Touch { .. });
        if let Err(refusal) = self.make_room(|manager| most_bytes(manager, &command)) {
            return Outcome::Refused(refusal);
        }
        let outcome = self.manager.handle(now, command);
        self.deliver_effects();
        outcome
    }

    /// As [`handle`](Self::handle), for the commands of which there are most.
    #[inline]
    pub(super) fn request(&mut self, now: Instant, request: &NewRequest<'_>) -> Result<Outcome, Refusal> {
        let now = self.stamp(now);
        self.touched = true;
        self.make_room(|_| request.most_bytes())?;
        let outcome = self.manager.request_a_lock(now, request);
        self.deliver_effects();
        outcome
    }

    /// As [`handle`](Self::handle); whether the lock was held.
    #[inline]
    pub(super) fn release(&mut self, now: Instant, request: RequestId) -> bool {
        let now = self.stamp(now);
        self.touched = true;
        let held = self.manager.release_the_lock(now, request);
        self.deliver_effects();
        held
    }

    /// Room for so many bytes more than there are.
    #[inline]
    fn make_room(&mut self, more: impl FnOnce(&LockManager<RandomState>) -> usize) -> Result<(), Refusal> {
        let Some(room) = &mut self.room else { return Ok(()) };
        let more = more(&self.manager);
        if more == 0 {
            return Ok(());
        }
        room.make(self.manager.bytes() + more).map_err(|NoRoom { limit }| Refusal::NoRoom { limit })
    }

    /// Whatever came of a command, or of time: so many bytes there are now.
    #[inline]
    pub(super) fn settle_room(&mut self) {
        if let Some(room) = &mut self.room {
            room.settle(self.manager.bytes());
        }
    }

    /// Ends what ends at or before `due`, and processes the queues that it leaves, at most so many; whether that was all.
    pub(super) fn time_has_passed(&mut self, due: Instant, most: usize) -> bool {
        // What came after `due` has been told another time already.
        let now = self.stamp(due);
        if self.manager.next_timeout().is_none_or(|next| next > due) {
            return true;
        }
        let is_done = self.manager.handle_timeout_in_part(due, now, most);
        self.touched = true;
        while let Some(effect) = self.manager.poll_effect() {
            if matches!(effect, Effect::Change(_)) {
                // Each end stands for itself, so that a crowd of them need not fit into one commit.
                self.outbox.seal();
            }
            self.deliver(effect);
        }
        self.after_effects();
        is_done
    }

    /// Keeps an answer that rests on something uncommitted, or gives it back.
    pub(super) fn hold_answer(
        &mut self,
        command: &Command<'_>,
        outcome: Outcome,
        parcel: impl FnOnce(Outcome) -> Parcel,
    ) -> Option<Parcel> {
        let about = About::answer(command, &outcome, self.outbox.is_open());
        let parcel = parcel(outcome);
        match about {
            About::Nothing => Some(parcel),
            About::Names(names, token) => self.outbox.hold(&names, token, parcel),
            About::Everything => self.outbox.hold_behind_all(parcel),
        }
    }

    /// What becomes of a request in the rarer cases: if what its future is told rests on something uncommitted, a grant becomes one of a request that had to
    /// wait, and a refusal comes later.
    #[cold]
    pub(super) fn made_rarer(
        &mut self,
        now: Instant,
        request: &NewRequest<'_>,
        outcome: Result<Outcome, Refusal>,
        waker: &Waker,
    ) -> Made {
        match outcome {
            Ok(Outcome::Granted(grant)) => {
                let Grant { request: id, token } = grant;
                let parcel = Parcel::Grant { request: id, token };
                if self.outbox.hold(&[request.name], token.get(), parcel).is_some() {
                    return Made::Granted(grant);
                }
                let displaced = self.waiters.wait(id, waker);
                debug_assert!(displaced.is_none(), "the cell of a new request was not idle");
                Made::Waits(id)
            }
            Ok(Outcome::Queued(id)) => {
                // The house has lost its store: nobody would ever be granted anything.
                self.handle(now, Command::Abort { request: id });
                Made::Refused(Box::new(Refusal::Closed))
            }
            Ok(outcome) => unreachable!("a request cannot end in {outcome:?}"),
            Err(refusal) => {
                let (to, later) = oneshot::channel();
                let reply = |outcome| Parcel::Reply { to, outcome, room: None };
                match self.hold_answer(&Command::Request(*request), Outcome::Refused(refusal), reply) {
                    Some(Parcel::Reply { outcome: Outcome::Refused(refusal), .. }) => {
                        Made::Refused(Box::new(refusal))
                    }
                    _ => Made::RefusedLater(later),
                }
            }
        }
    }

    /// Comes once everything so far is durable; at once, if it is.
    pub(crate) fn settled(&mut self) -> Option<oneshot::Receiver<Outcome>> {
        let (to, settled) = oneshot::channel();
        let reply = Parcel::Reply { to, outcome: Outcome::Closed, room: None };
        self.outbox.hold_behind_all(reply).is_none().then_some(settled)
    }

    /// How many commands wait for the store.
    pub(crate) fn backlog(&self) -> usize {
        self.outbox.len()
    }

    /// Answers a command of a port.
    pub(super) fn answer(&mut self, inbox: &Arc<Inbox>, tag: u64, command: &Command<'_>, outcome: Outcome) {
        if self.outbox.is_idle() && (self.told || !matches!(outcome, Outcome::Granted(_))) {
            self.wakers.extend(inbox.push(Notice::Answer { tag, outcome }));
            return;
        }
        if let Outcome::Granted(grant) = outcome {
            return self.answer_grant(inbox, tag, command, grant);
        }
        let parcel = |outcome| Parcel::Port {
            inbox: inbox.clone(),
            notice: Notice::Answer { tag, outcome },
            room: None,
        };
        if let Some(parcel) = self.hold_answer(command, outcome, parcel) {
            self.hand_over(parcel);
        }
    }

    /// A grant that has to wait is told as one of a request that had to.
    fn answer_grant(&mut self, inbox: &Arc<Inbox>, tag: u64, command: &Command<'_>, grant: Grant) {
        let (Command::Request(NewRequest { agent, name, .. })
        | Command::Reclaim(NewReclaim { agent, name, .. })) = *command
        else {
            unreachable!("only requests and reclaims are granted")
        };
        let notice = Notice::Effect(Effect::Granted { agent, grant });
        let parcel = Parcel::Port { inbox: inbox.clone(), notice, room: None };
        let outcome = match self.hold_grant(&[name], grant, parcel) {
            None => Outcome::Queued(grant.request),
            Some(_) => Outcome::Granted(grant),
        };
        self.wakers.extend(inbox.push(Notice::Answer { tag, outcome }));
    }

    /// Keeps a grant that goes to a port, or gives it back.
    fn hold_grant(&mut self, names: &[Name<'_>], grant: Grant, parcel: Parcel) -> Option<Parcel> {
        if self.may_tell_grants() {
            self.outbox.hold(names, grant.token.get(), parcel)
        } else {
            // The reservation of its token came before what it waits for now.
            self.outbox.hold_longest(names, parcel)
        }
    }

    /// Whether the store knows that web locks of this bucket are told to somebody far away; if not, it soon will.
    fn may_tell_grants(&mut self) -> bool {
        if self.told {
            return true;
        }
        match self.told_in {
            None => {
                self.keep(Item::ToldVolatile);
                self.told_in = Some(self.outbox.last());
            }
            Some(group) => self.told = self.outbox.is_kept(group),
        }
        self.told
    }

    /// Something is to be kept that speaks of no name.
    pub(super) fn keep(&mut self, item: Item) {
        if !self.is_kept {
            return;
        }
        self.is_known = true;
        self.outbox.change(&[], item);
    }

    /// The command is over; whether the pipeline is to be told that there is something to send, and how many commands have come.
    pub(super) fn seal(&mut self) -> (bool, usize) {
        self.outbox.seal();
        let is_first = self.outbox.has_more() && !std::mem::replace(&mut self.queued, true);
        let unsent = self.outbox.unsent();
        (is_first, unsent - std::mem::replace(&mut self.reported, unsent))
    }

    /// Sends a share of the changes; how many commands the pipeline has less to wait for.
    pub(super) fn take(&mut self, share: usize, items: &mut Vec<Item>) -> usize {
        self.outbox.take(share, items);
        self.queued = self.outbox.has_more();
        let unsent = self.outbox.unsent();
        std::mem::replace(&mut self.reported, unsent) - unsent
    }

    /// What was sent is durable. Replies are given back, to be sent once the mutex is free.
    pub(super) fn committed(&mut self) -> Vec<Parcel> {
        let parcels = self.outbox.committed();
        parcels.into_iter().filter_map(|parcel| self.hand_over(parcel)).collect()
    }

    /// The house has lost its store, and with it every lock. What is given back is to be dropped once the mutex is free.
    pub(super) fn lose_everything(&mut self, now: Instant, why: Loss) -> Vec<Parcel> {
        if self.over.is_some() {
            return Vec::new();
        }
        self.handle(now, Command::Close);
        self.over = Some(why);
        self.wakers.extend(self.waiters.wake_all());
        self.heard.extend(self.waiters.lose_all());
        let mut told: Vec<&Arc<Inbox>> = Vec::new();
        for inbox in self.inboxes.iter().flatten() {
            if !told.iter().any(|known| Arc::ptr_eq(known, inbox)) {
                self.wakers.extend(inbox.push(Notice::Over(why)));
                told.push(inbox);
            }
        }
        self.keep_no_more()
    }

    /// There is no store any more. What is given back is to be dropped once the mutex is free.
    pub(super) fn keep_no_more(&mut self) -> Vec<Parcel> {
        (self.is_kept, self.is_known, self.told) = (false, false, true);
        self.reported = 0;
        self.outbox.fenced()
    }

    pub(crate) fn standing(&self, request: RequestId) -> Standing {
        self.manager.standing(request)
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

    /// Why everything is lost, if it is.
    pub(crate) fn over(&self) -> Option<Loss> {
        self.over
    }

    /// Nobody waits for or listens to the agent's requests any more: it is about to end.
    pub(super) fn forget_requests_of(&mut self, agent: AgentId) {
        let Self { manager, waiters, wakers, heard, .. } = self;
        for request in manager.requests_of(agent) {
            heard.extend(waiters.not_listened_to(request));
            wakers.extend(waiters.forget(request));
        }
    }

    /// What the house does not know yet.
    #[inline]
    pub(super) fn take_news(&mut self) -> Option<News> {
        if std::mem::take(&mut self.has_recovered) {
            return Some(News::Recovered);
        }
        (self.is_needed() != self.is_noted).then_some(News::NeedChanged)
    }

    /// Whether there is something that the bucket must not be forgotten for, of which the house takes note.
    pub(super) fn note_need(&mut self) -> bool {
        self.is_noted = self.is_needed();
        self.is_noted
    }

    /// Above which numbers whoever comes after this bucket has to begin.
    pub(super) fn mark(&self) -> u64 {
        if self.is_kept { self.manager.reserved_up_to() } else { self.manager.last_token() }
    }

    /// Whether there is something that the bucket must not be forgotten for.
    pub(super) fn is_needed(&self) -> bool {
        self.facts > 0 || self.manager.is_recovering()
    }

    /// Whether somebody far away holds a web lock, or may come back for one.
    pub(super) fn is_held_far_away(&mut self, now: Instant) -> bool {
        let Outcome::Snapshot(snapshot) = self.handle(now, Command::Snapshot) else {
            unreachable!("a snapshot is answered with one")
        };
        let is_far = |party| match party {
            Party::Agent(agent) => self.inboxes.get(agent.slot()).is_some_and(Option::is_some),
            Party::Owner(_) | Party::Claimant => false,
        };
        self.manager.is_recovering() || snapshot.held.iter().any(|entry| is_far(entry.party))
    }

    /// Time as the manager needs it: never backwards.
    #[inline]
    pub(super) fn stamp(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
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
            self.wakers.extend(self.waiters.granted(request, token, true));
            return;
        }
        self.deliver_rarer(effect);
    }

    fn deliver_rarer(&mut self, effect: Effect) {
        let agent = match effect {
            Effect::Change(change) => return self.changed(*change),
            Effect::Recovered => {
                self.has_recovered = true;
                return;
            }
            Effect::Granted { agent, .. }
            | Effect::Lost { agent, .. }
            | Effect::AgentEnded { agent, .. }
            | Effect::Unavailable { agent, .. } => agent,
        };
        let Some(Some(inbox)) = self.inboxes.get(agent.slot()) else { return self.deliver_here(effect) };
        let is_end = matches!(effect, Effect::AgentEnded { .. });
        if self.outbox.is_idle() && self.told {
            self.wakers.extend(inbox.push(Notice::Effect(effect)));
        } else {
            let inbox = inbox.clone();
            self.deliver_to_port(inbox, effect);
        }
        if is_end {
            self.route(agent, None);
        }
    }

    #[cold]
    fn changed(&mut self, change: Change) {
        match &change {
            Change::OwnerOpened(_) | Change::Claimed(_) => self.facts += 1,
            Change::OwnerEnded { .. } | Change::Unclaimed { .. } | Change::Unassigned { .. } => {
                self.facts -= 1;
            }
            Change::TokensReserved { .. }
            | Change::Locked(_)
            | Change::Unlocked { .. }
            | Change::Assigned(_) => {}
        }
        if !self.is_kept {
            return;
        }
        self.is_known = true;
        match change {
            Change::TokensReserved { up_to } => self.outbox.reservation(up_to, Item::Change(change)),
            _ => {
                let names = change.names().to_vec();
                self.outbox.change(&names, Item::Change(change));
            }
        }
    }

    fn deliver_to_port(&mut self, inbox: Arc<Inbox>, effect: Effect) {
        let parcel = |effect| Parcel::Port { inbox, notice: Notice::Effect(effect), room: None };
        let passes = match effect {
            Effect::Granted { grant, .. } => {
                let name = self.manager.name_of(grant.request).map(Name::to_buf);
                match &name {
                    Some(name) => self.hold_grant(&[name.as_name()], grant, parcel(effect)),
                    None => self.outbox.hold_behind_all(parcel(effect)),
                }
            }
            Effect::Lost { ref name, .. } => {
                let name = name.clone();
                self.outbox.hold(&[name.as_name()], 0, parcel(effect))
            }
            _ => self.outbox.hold_behind_all(parcel(effect)),
        };
        if let Some(parcel) = passes {
            self.hand_over(parcel);
        }
    }

    /// Losses are told to agents of this process at once: whatever the store makes of it, they do not outlive it.
    fn deliver_here(&mut self, effect: Effect) {
        match effect {
            Effect::Granted { grant: Grant { request, token }, .. } => {
                let grant = Parcel::Grant { request, token };
                let passes = if self.outbox.is_idle() {
                    Some(grant)
                } else {
                    match self.manager.name_of(request) {
                        Some(name) => self.outbox.hold(&[name], token.get(), grant),
                        None => self.outbox.hold_behind_all(grant),
                    }
                };
                if let Some(grant) = passes {
                    self.hand_over(grant);
                }
            }
            Effect::Lost { request, reason, .. } => {
                self.heard.extend(self.waiters.lost(request, Loss::from(reason)));
            }
            Effect::Unavailable { request, refusal, .. } => {
                self.waiters.will_be_refused(request);
                if let Some(parcel) =
                    self.outbox.hold_behind_all(Parcel::Refusal { request, refusal: *refusal })
                {
                    self.hand_over(parcel);
                }
            }
            // Agents of this process have no lease; the others are none of an agent's.
            Effect::AgentEnded { .. } | Effect::Change(_) | Effect::Recovered => {}
        }
    }

    /// Tells what may be told; a reply is given back, to be sent once the mutex is free.
    pub(super) fn hand_over(&mut self, parcel: Parcel) -> Option<Parcel> {
        match parcel {
            Parcel::Port { inbox, notice, .. } => self.wakers.extend(inbox.push(notice)),
            Parcel::Grant { request, token } => {
                let is_held = self.manager.standing(request) != Standing::Ended;
                self.wakers.extend(self.waiters.granted(request, token, is_held));
            }
            Parcel::Refusal { request, refusal } => {
                self.wakers.extend(self.waiters.refused(request, refusal));
            }
            Parcel::Reply { .. } => return Some(parcel),
        }
        None
    }

    pub(super) fn route(&mut self, agent: AgentId, inbox: Option<Arc<Inbox>>) {
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

/// What room is to be made for. Sessions have bounds of their own, and come in though there is no room: to look, and to give back. So does
/// whoever brings back what there was room for before the restart.
fn most_bytes(manager: &LockManager<RandomState>, command: &Command<'_>) -> usize {
    match command {
        Command::Join(NewAgent { lease_ms: Some(_), .. }) | Command::Reclaim(_) => 0,
        Command::Join(_) if manager.is_recovering() => 0,
        command => manager.most_bytes_of(command),
    }
}
