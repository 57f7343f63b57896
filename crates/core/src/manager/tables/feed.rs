//! The feed: what happens in a lock table, one event after the other, kept only where it is asked for.
//!
//! ```text
//!   the places where something happens ─▶ tally ─▶ feed ─▶ LockManager::poll_event, once the command is over
//! ```

use std::collections::VecDeque;
use std::hash::BuildHasher;

use super::super::LockManager;
use super::arena::{Arena, KEPT};
use super::table::{ClaimDetails, LockEntry, LockTable, NameSlot, PartySlot, Tenure};
use crate::{
    AgentId, Command, Discipline, EndCause, EventKind, FencingToken, Instant, Mode, Name, NameBuf,
    NewRequest, OwnerEnd, OwnerId, Refusal, RefusalCause, TableEvent,
};

/// The events of the present command.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    events: VecDeque<TableEvent>,
    /// So many are kept; the oldest give way.
    most: usize,
    /// How many have given way.
    dropped: u64,
    /// Why the entries end that are about to be removed.
    cause: Option<EndCause>,
    /// The agent that ends next, as its lease is over.
    silent: Option<AgentId>,
}

/// The parts of a table that say what an entry is.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) names: &'a Arena<NameSlot>,
    pub(super) parties: &'a Arena<PartySlot>,
    pub(super) claims: &'a Arena<ClaimDetails>,
    /// The party that is about to go, and is in no arena any more.
    pub(super) leaving: Option<&'a PartySlot>,
}

impl Surroundings<'_> {
    fn event(self, entry: &LockEntry, at: Instant, kind: EventKind) -> TableEvent {
        let party = |slot: u32| self.leaving.unwrap_or_else(|| &self.parties[slot]);
        let (who, owner) = match entry.tenure() {
            Tenure::Agent(slot) => (&party(slot).label, None),
            Tenure::Owner(slot) => (&party(slot).label, party(slot).owner.as_ref().map(|owner| owner.id)),
            Tenure::Ttl(slot) => (&self.claims[slot].claimant, None),
        };
        TableEvent {
            at,
            kind,
            discipline: entry.tenure().into(),
            name: Some(self.names[entry.name].name.clone()),
            mode: Some(entry.mode),
            who: who.clone(),
            owner,
            token: entry.token.map(super::table::HeldToken::token),
            since: entry.since,
        }
    }
}

impl Feed {
    pub(super) fn new(most: usize) -> Self {
        let (events, dropped, cause) = (VecDeque::new(), 0, None);
        Self { events, most: most.max(1), dropped, cause, silent: None }
    }

    fn push(&mut self, event: TableEvent) {
        if self.events.len() == self.most {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(event);
    }

    #[inline(never)]
    pub(super) fn waits(&mut self, entry: &LockEntry, at: Instant, around: Surroundings<'_>) {
        self.push(around.event(entry, at, EventKind::Waiting));
    }

    /// The entry gets that token.
    #[inline(never)]
    pub(super) fn granted(
        &mut self,
        entry: &LockEntry,
        token: FencingToken,
        at: Instant,
        around: Surroundings<'_>,
    ) {
        self.push(TableEvent { token: Some(token), ..around.event(entry, at, EventKind::Granted) });
    }

    /// The entry is about to go. Those of a party that leaves all end for the same cause.
    #[inline(never)]
    pub(super) fn ended(&mut self, entry: &LockEntry, at: Instant, around: Surroundings<'_>) {
        let cause = if around.leaving.is_some() { self.cause.clone() } else { self.cause.take() };
        let by_itself = if entry.token.is_some() { EndCause::Released } else { EndCause::Aborted };
        self.push(around.event(entry, at, EventKind::Ended(cause.unwrap_or(by_itself))));
    }
}

impl<S: BuildHasher> LockTable<S> {
    fn feed(&mut self) -> Option<&mut Feed> {
        self.tally.as_deref_mut().and_then(|tally| tally.feed.as_mut())
    }

    /// The entries that are removed next end for that cause: one, or all of one party.
    #[inline]
    pub(crate) fn ends_for(&mut self, cause: impl FnOnce() -> EndCause) {
        if let Some(feed) = self.feed() {
            feed.cause = Some(cause());
        }
    }

    /// All entries of the party have ended for the cause.
    #[inline]
    pub(crate) fn ended_all(&mut self) {
        if let Some(feed) = self.feed() {
            feed.cause = None;
        }
    }

    /// Why the agent ends that a command ends.
    pub(crate) fn agent_ends(&mut self, agent: AgentId) {
        if let Some(feed) = self.feed() {
            let is_silent = feed.silent.take() == Some(agent);
            feed.cause = Some(if is_silent { EndCause::Lease } else { EndCause::AgentEnded });
        }
    }

    /// The agent ends with the next command, as its lease is over.
    pub(crate) fn agent_is_silent(&mut self, agent: AgentId) {
        if let Some(feed) = self.feed() {
            feed.silent = Some(agent);
        }
    }

    /// An offline lock is about to get another mode, and a new beginning, at that time.
    pub(crate) fn changes_mode(&mut self, slot: u32, cause: EndCause) {
        self.event_of(slot, EventKind::Ended(cause));
    }

    /// An offline lock has got another mode, and with it this token.
    pub(crate) fn has_changed_mode(&mut self, slot: u32) {
        self.event_of(slot, EventKind::Granted);
    }

    fn event_of(&mut self, slot: u32, kind: EventKind) {
        let Self { entries, names, parties, claims, tally, .. } = self;
        let Some(tally) = tally.as_deref_mut() else { return };
        let Some(feed) = &mut tally.feed else { return };
        let around = Surroundings { names, parties, claims, leaving: None };
        feed.push(around.event(&entries[slot], tally.now, kind));
    }

    /// An owner has begun, or is about to end.
    pub(crate) fn owner_event(&mut self, party: u32, end: Option<OwnerEnd>) {
        let Self { parties, tally, .. } = self;
        let Some(tally) = tally.as_deref_mut() else { return };
        let (Some(feed), Some(owner)) = (&mut tally.feed, &parties[party].owner) else { return };
        let event = TableEvent {
            at: tally.now,
            kind: end.map_or(EventKind::OwnerOpened, EventKind::OwnerClosed),
            discipline: Discipline::Offline,
            name: None,
            mode: None,
            who: parties[party].label.clone(),
            owner: Some(owner.id),
            token: None,
            since: owner.since,
        };
        feed.push(event);
    }

    /// A claim was made final, or its assignment was taken back.
    pub(crate) fn assignment_event(
        &mut self,
        kind: EventKind,
        name: &NameBuf,
        (claimant, token, since): (&str, FencingToken, Instant),
    ) {
        let Some(tally) = self.tally.as_deref_mut() else { return };
        let Some(feed) = &mut tally.feed else { return };
        feed.push(TableEvent {
            at: tally.now,
            kind,
            discipline: Discipline::Claim,
            name: Some(name.clone()),
            mode: None,
            who: claimant.into(),
            owner: None,
            token: Some(token),
            since,
        });
    }

    fn refusal_event(&mut self, refused: RefusedName<'_>, cause: RefusalCause) {
        let Some(tally) = self.tally.as_deref_mut() else { return };
        let Some(feed) = &mut tally.feed else { return };
        let RefusedName { discipline, name, mode, who, owner } = refused;
        feed.push(TableEvent {
            at: tally.now,
            kind: EventKind::Refused(cause),
            discipline,
            name: Some(name.to_buf()),
            mode,
            who: who.into(),
            owner,
            token: None,
            since: tally.now,
        });
    }
}

/// What was refused.
#[derive(Clone, Copy)]
struct RefusedName<'a> {
    discipline: Discipline,
    name: Name<'a>,
    mode: Option<Mode>,
    who: &'a str,
    owner: Option<OwnerId>,
}

impl<S: BuildHasher> LockManager<S> {
    /// From now on keeps what happens for [`poll_event`](Self::poll_event), of one command the latest `most`
    /// events. For a manager in which nothing waits, or whose [tally](Self::start_tally) has begun.
    pub fn start_events(&mut self, most: usize) {
        let tally = self.table.tally.get_or_insert_default();
        tally.feed.get_or_insert_with(|| Feed::new(most));
    }

    /// No event is kept any more, and those that are there are forgotten. The tally goes on.
    pub fn stop_events(&mut self) {
        if let Some(tally) = &mut self.table.tally {
            tally.feed = None;
        }
    }

    /// Whether there are events to [poll](Self::poll_event).
    #[inline]
    pub fn has_events(&self) -> bool {
        let feed = self.table.tally.as_deref().and_then(|tally| tally.feed.as_ref());
        feed.is_some_and(|feed| !feed.events.is_empty())
    }

    /// The next event, the oldest first, of those since [`start_events`](Self::start_events).
    pub fn poll_event(&mut self) -> Option<TableEvent> {
        let feed = self.table.feed()?;
        let event = feed.events.pop_front();
        if event.is_none() && feed.events.capacity() > KEPT {
            feed.events = VecDeque::new();
        }
        event
    }

    /// How many events have given way to later ones since this was asked last: they came before all that are
    /// left.
    pub fn dropped_events(&mut self) -> u64 {
        self.table.feed().map_or(0, |feed| std::mem::take(&mut feed.dropped))
    }

    /// A request for a web lock was refused.
    pub(super) fn note_refused_request(&mut self, request: &NewRequest<'_>, refusal: &Refusal) {
        if self.table.feed().is_none() || !self.is_alive(request.agent) || is_of_name(refusal) {
            return;
        }
        let who = self.table.parties[request.agent.slot].label.clone();
        let (discipline, name, mode) = (Discipline::Web, request.name, Some(request.acquire.mode()));
        self.note_refusal(RefusedName { discipline, name, mode, who: &who, owner: None }, refusal);
    }

    /// A command was refused: for locks and claims each name that is in the way is an event.
    pub(super) fn note_refused_command(&mut self, command: &Command<'_>, refusal: &Refusal) {
        if self.table.feed().is_none() || is_of_name(refusal) {
            return;
        }
        match command {
            Command::Request(request) => self.note_refused_request(request, refusal),
            Command::Claim(new) if self.limits.check_label(new.claimant).is_ok() => {
                let (discipline, mode) = (Discipline::Claim, Some(Mode::Exclusive));
                let refused =
                    RefusedName { discipline, name: new.name, mode, who: new.claimant, owner: None };
                self.note_refusal(refused, refusal);
            }
            Command::Lock(new) => {
                let Some(party) = self.table.owners.get(&new.owner) else { return };
                let who = self.table.parties[*party].label.clone();
                let (discipline, owner) = (Discipline::Offline, Some(new.owner));
                for &(name, mode) in new.locks {
                    let is_in_the_way = match refusal {
                        Refusal::Conflict(conflicts) => {
                            conflicts.iter().any(|conflict| conflict.name.as_name() == name)
                        }
                        _ => true,
                    };
                    if is_in_the_way {
                        let refused = RefusedName { discipline, name, mode: Some(mode), who: &who, owner };
                        self.note_refusal(refused, refusal);
                    }
                }
            }
            _ => {}
        }
    }

    /// A name that is longer than it may be is not kept, for whatever else it was refused before.
    fn note_refusal(&mut self, refused: RefusedName<'_>, refusal: &Refusal) {
        if self.limits.check_name(refused.name).is_ok() {
            self.table.refusal_event(refused, refusal.into());
        }
    }
}

/// Whether the refusal is about a name or a text that is longer than it may be: such a one is not kept.
fn is_of_name(refusal: &Refusal) -> bool {
    matches!(RefusalCause::from(refusal), RefusalCause::Invalid)
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::{
        Acquire, HoldToBreak, LockState, NewAgent, NewClaim, NewLocks, NewOwner, Outcome, RequestId,
        SecretSeed, Unlock,
    };

    type Manager = LockManager<FixedState>;

    fn name(text: &'static str) -> Name<'static> {
        Name::new(text).unwrap()
    }

    fn run(manager: &mut Manager, ms: u64, command: Command<'_>) -> Outcome {
        let now = Instant::from_millis(ms);
        manager.set_tally_time(now);
        let outcome = manager.handle(now, command);
        manager.tally_command(&command, &outcome);
        while manager.poll_effect().is_some() {}
        outcome
    }

    /// What has happened, in words.
    fn happened(manager: &mut Manager) -> Vec<String> {
        let events = std::iter::from_fn(|| manager.poll_event());
        let said = |event: TableEvent| {
            let kind = match &event.kind {
                EventKind::Ended(cause) => format!("Ended {cause:?}"),
                kind => format!("{kind:?}"),
            };
            let name = event.name.as_ref().and_then(|name| name.as_name().as_str()).unwrap_or("-");
            let ms = (event.since.as_millis(), event.at.as_millis());
            format!("{kind} {name} {} {:?} {ms:?}", event.who, event.token.is_some())
        };
        events.map(said).collect()
    }

    fn join(manager: &mut Manager, client_id: &str, lease_ms: Option<u64>) -> AgentId {
        match run(manager, 0, Command::Join(NewAgent { client_id, lease_ms })) {
            Outcome::Joined(agent) => agent,
            other => panic!("{other:?}"),
        }
    }

    fn request(manager: &mut Manager, ms: u64, agent: AgentId, acquire: Acquire) -> Option<RequestId> {
        match run(manager, ms, Command::Request(NewRequest::new(agent, name("n"), acquire))) {
            Outcome::Granted(grant) => Some(grant.request),
            Outcome::Queued(request) => Some(request),
            _ => None,
        }
    }

    const WAIT: Acquire = Acquire::Wait(Mode::Exclusive);

    #[test]
    fn web_locks_wait_are_granted_and_end_for_their_cause() {
        let mut manager = Manager::new(FixedState::default());
        manager.start_events(100);
        let (a, b) = (join(&mut manager, "a", None), join(&mut manager, "b", Some(50)));
        let first = request(&mut manager, 10, a, WAIT).unwrap();
        request(&mut manager, 20, b, WAIT).unwrap();
        request(&mut manager, 25, a, Acquire::IfAvailable(Mode::Shared));
        run(&mut manager, 30, Command::Release { request: first });
        let third = request(&mut manager, 35, a, WAIT).unwrap();
        run(&mut manager, 36, Command::Abort { request: third });
        assert_eq!(
            happened(&mut manager),
            [
                "Granted n a true (10, 10)",
                "Waiting n b false (20, 20)",
                "Refused(Taken) n a false (25, 25)",
                "Ended Released n a true (10, 30)",
                "Granted n b true (20, 30)",
                "Waiting n a false (35, 35)",
                "Ended Aborted n a false (35, 36)",
            ]
        );
        request(&mut manager, 40, a, Acquire::Steal);
        manager.set_tally_time(Instant::from_millis(60));
        manager.handle_timeout(Instant::from_millis(60));
        let LockState::Held(token) = manager.snapshot_of(name("n")).held[0].state else { panic!() };
        let hold = HoldToBreak { name: name("n"), token, operator: "ops", reason: Some("why") };
        run(&mut manager, 70, Command::Break(hold));
        request(&mut manager, 80, a, WAIT);
        manager.tally_silent(a);
        run(&mut manager, 90, Command::End { agent: a });
        let broken = "Ended Broken(BrokenBy { operator: \"ops\", reason: Some(\"why\") }) n a true (40, 70)";
        assert_eq!(
            happened(&mut manager),
            [
                "Ended Stolen n b true (30, 40)",
                "Granted n a true (40, 40)",
                broken,
                "Granted n a true (80, 80)",
                "Ended Lease n a true (80, 90)",
            ]
        );
    }

    #[test]
    fn owners_and_claims_begin_and_end_with_all_that_they_hold() {
        let mut manager = Manager::new(FixedState::default());
        manager.start_events(100);
        let new = NewOwner { label: "Ada", metadata: None, ttl_ms: 100, max_ms: None, seed: SecretSeed(1) };
        let Outcome::OwnerOpened(owner) = run(&mut manager, 1, Command::OpenOwner(new)) else { panic!() };
        let lock = |manager: &mut Manager, ms, mode| {
            let locks = [(name("n"), mode)];
            run(manager, ms, Command::Lock(NewLocks { owner, locks: &locks, metadata: None }));
        };
        lock(&mut manager, 2, Mode::Shared);
        lock(&mut manager, 3, Mode::Exclusive);
        let claim = |resource| {
            let (claimant, ttl_ms, metadata) = ("Bob", 1000, None);
            NewClaim { name: name(resource), claimant, ttl_ms, seed: SecretSeed(2), metadata }
        };
        run(&mut manager, 4, Command::Claim(claim("n")));
        let Outcome::Claimed(claimed) = run(&mut manager, 5, Command::Claim(claim("c"))) else { panic!() };
        run(&mut manager, 6, Command::Finalize { name: name("c"), token: Some(claimed.token) });
        run(&mut manager, 7, Command::Unassign { name: name("c"), token: None });
        manager.set_tally_time(Instant::from_millis(103));
        manager.handle_timeout(Instant::from_millis(103));
        assert_eq!(
            happened(&mut manager),
            [
                "OwnerOpened - Ada false (1, 1)",
                "Granted n Ada true (2, 2)",
                "Ended Upgraded n Ada true (2, 3)",
                "Granted n Ada true (3, 3)",
                "Refused(Taken) n Bob false (4, 4)",
                "Granted c Bob true (5, 5)",
                "Assigned c Bob true (6, 6)",
                "Ended Finalized c Bob true (5, 6)",
                "Unassigned c Bob true (6, 7)",
                "OwnerClosed(Expired) - Ada false (1, 103)",
                "Ended WithOwner(Expired) n Ada true (3, 103)",
            ]
        );
        let locks = Unlock::AllBut(&[]);
        run(&mut manager, 104, Command::Unlock { owner, locks });
        assert_eq!(happened(&mut manager), Vec::<String>::new());
    }

    #[test]
    fn a_name_or_claimant_that_is_too_long_is_in_no_event_whatever_it_was_refused_for() {
        let limits = crate::Limits { name_units: 3, label_bytes: 3, ..crate::Limits::DEFAULT };
        let mut manager = Manager::with_limits(FixedState::default(), limits);
        manager.start_events(100);
        let agent = join(&mut manager, "a client", None);
        let full = Outcome::Refused(Refusal::BudgetExceeded { limit: 1 });
        for (resource, claimant) in [("long", "Bob"), ("abc", "long"), ("abc", "Bob")] {
            let (name, ttl_ms, metadata) = (name(resource), 1000, None);
            let claim = NewClaim { name, claimant, ttl_ms, seed: SecretSeed(2), metadata };
            manager.tally_command(&Command::Claim(claim), &full);
            let request = NewRequest::new(agent, name, WAIT);
            manager.tally_command(&Command::Request(request), &full);
        }
        let (of_claim, of_request) =
            ("Refused(Quota) abc Bob false (0, 0)", "Refused(Quota) abc a client false (0, 0)");
        assert_eq!(happened(&mut manager), [of_request, of_claim, of_request]);
    }

    #[test]
    fn of_a_large_command_the_latest_events_are_kept_and_the_others_counted() {
        let mut manager = Manager::new(FixedState::default());
        manager.start_events(10);
        let agent = join(&mut manager, "a", None);
        (0..25).for_each(|_| _ = request(&mut manager, 1, agent, Acquire::Wait(Mode::Shared)));
        assert_eq!(manager.dropped_events(), 15);
        assert_eq!(happened(&mut manager).len(), 10);
        run(&mut manager, 2, Command::End { agent });
        assert_eq!((manager.dropped_events(), happened(&mut manager).len()), (15, 10));
        assert!(!manager.has_events());
    }

    #[test]
    fn events_that_were_stopped_are_forgotten_and_no_more_come_while_the_counts_go_on() {
        let mut manager = Manager::new(FixedState::default());
        manager.start_events(10);
        let agent = join(&mut manager, "a", None);
        request(&mut manager, 1, agent, WAIT).unwrap();
        manager.stop_events();
        assert!(!manager.has_events());
        request(&mut manager, 2, agent, Acquire::IfAvailable(Mode::Shared));
        run(&mut manager, 3, Command::End { agent });
        assert!(!manager.has_events() && manager.poll_event().is_none());
        assert_eq!(manager.totals().unwrap().requested[Discipline::Web as usize], 2);
    }
}
