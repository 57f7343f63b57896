//! Web locks whose holders are away: the process before this one stopped, and left a list of what its clients
//! held. Those names wait for their holders, and no others.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use super::LockManager;
use super::tables::table::Tenure;
use crate::{
    Acquire, AgentId, Discipline, Effect, EndCause, FencingToken, Grant, Instant, LossCause, Mode, Name,
    NewRequest, Now, RequestId,
};

/// The locks of holders that have not come back yet. They are held like any others, by one agent that stands
/// for all of these holders, to which no effect is reported.
#[derive(Clone, Debug)]
pub(super) struct Absent {
    agent: AgentId,
    /// By token. A lock that was stolen meanwhile is not held any more.
    locks: BTreeMap<FencingToken, RequestId>,
}

impl<S: BuildHasher> LockManager<S> {
    /// Until that instant agents of before a restart may reclaim the locks that
    /// [`hold_absent`](Self::hold_absent) adds; then these end, and [`Effect::Recovered`] comes behind that,
    /// also if all have been reclaimed by then. Others see such a lock as held by an agent with that client
    /// id. For a manager that has no agents yet, does not recover, and goes on above the tokens of these
    /// locks.
    pub fn begin_absence(&mut self, now: Instant, until: Instant, client_id: &str) {
        debug_assert!(self.recovery.is_none() && self.absent.is_none(), "what is away is known once");
        let agent = self.table.add_party(client_id, None);
        self.table.mark_remote(agent);
        self.give_lease(agent, until.as_millis().saturating_sub(now.as_millis()), until);
        self.absent = Some(Box::new(Absent { agent, locks: BTreeMap::new() }));
    }

    /// The lock of an agent that is away. False if something else holds the name. Its name and the lock count
    /// for no bound: both were there before the restart.
    ///
    /// Requests that came earlier have not waited for the lock: add all locks of a name before the first
    /// command that concerns the name.
    pub fn hold_absent(&mut self, now: Instant, name: Name<'_>, mode: Mode, token: FencingToken) -> bool {
        debug_assert!(token.get() <= self.last_token, "tokens go on above those of before the restart");
        let Some(agent) = self.absent.as_ref().map(|absent| absent.agent) else { return false };
        let Some(slot) = self.table.name_slot(name, u32::MAX) else { return false };
        if !self.fits(slot, mode) {
            return false;
        }
        let request = NewRequest::new(agent, name, Acquire::Wait(mode));
        let Grant { request, token } = self.hold_reclaimed(now.into(), slot, &request, token);
        if let Some(absent) = &mut self.absent {
            absent.locks.insert(token, request);
        }
        true
    }

    /// The holder of the lock with that token does not reclaim it: the lock ends, unless it was reclaimed or
    /// stolen.
    pub fn give_up_absent(&mut self, now: Instant, token: FencingToken) {
        let lock = self.absent.as_mut().and_then(|absent| absent.locks.remove(&token));
        if let Some(request) = lock.filter(|request| self.table.entry(*request).is_some()) {
            self.table.ends_for(|| EndCause::NotReclaimed);
            self.table.tally_loss(Discipline::Web, LossCause::NotReclaimed, 1);
            self.release_the_lock(now, request);
        }
    }

    /// Whether agents may reclaim locks that they held before a restart: all of them, in a recovery, or those
    /// of a list.
    pub fn takes_reclaims(&self) -> bool {
        self.recovery.is_some() || self.absent.is_some()
    }

    /// Whether locks of absent holders are held.
    pub fn has_absent(&self) -> bool {
        self.absent.as_ref().is_some_and(|absent| self.requests_of(absent.agent).next().is_some())
    }

    /// The agent that stood for the absent holders has ended.
    pub(super) fn absence_ended(&mut self) {
        self.absent = None;
        self.effects.push_back(Effect::Recovered);
    }

    /// How many of the agents stand for absent holders.
    pub(super) fn stand_ins(&self) -> usize {
        usize::from(self.absent.is_some())
    }

    /// Whether the agent in that slot stands for absent holders.
    pub(super) fn is_absent(&self, party: u32) -> bool {
        self.absent.as_ref().is_some_and(|absent| absent.agent.slot == party)
    }

    /// The lock of an absent holder, if it is exactly that one and still held.
    pub(super) fn find_absent(&self, name: Name<'_>, mode: Mode, token: FencingToken) -> Option<RequestId> {
        let lock = *self.absent.as_ref()?.locks.get(&token)?;
        let entry = self.table.entry(lock)?;
        debug_assert!(matches!(entry.tenure(), Tenure::Agent(party) if self.is_absent(party)));
        let is_it = self.table.names[entry.name].name.as_name() == name && entry.mode == mode;
        is_it.then_some(lock)
    }

    /// Hands the lock over from the agent that stands for its holder. The name is granted to no other in
    /// between.
    pub(super) fn hand_over(
        &mut self,
        now: Now,
        lock: RequestId,
        request: &NewRequest<'_>,
        token: FencingToken,
    ) -> Grant {
        self.table.is_replaced();
        let name = self.remove(lock.slot).name;
        if let Some(absent) = &mut self.absent {
            absent.locks.remove(&token);
        }
        self.hold_reclaimed(now, name, request, token)
    }
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::{Command, EventKind, Limits, NewAgent, NewReclaim, Outcome, Refusal};

    type Manager = LockManager<FixedState>;

    const UNTIL: Instant = Instant::from_millis(1000);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn name(text: &'static str) -> Name<'static> {
        Name::new(text).unwrap()
    }

    fn manager(locks: &[(&'static str, Mode, u64)]) -> Manager {
        let mut manager = LockManager::new(FixedState::default());
        manager.continue_tokens_above(100);
        manager.begin_absence(at(0), UNTIL, "away");
        for (text, mode, token) in locks {
            assert!(manager.hold_absent(at(0), name(text), *mode, FencingToken::new(*token)));
        }
        manager
    }

    fn join(manager: &mut Manager) -> AgentId {
        match manager.handle(at(1), Command::Join(NewAgent::new("back"))) {
            Outcome::Joined(agent) => agent,
            other => panic!("{other:?}"),
        }
    }

    fn request(manager: &mut Manager, text: &'static str, acquire: Acquire) -> Outcome {
        let agent = join(manager);
        manager.handle(at(1), Command::Request(NewRequest::new(agent, name(text), acquire)))
    }

    fn reclaim(manager: &mut Manager, text: &'static str, mode: Mode, token: u64) -> Outcome {
        let (agent, token) = (join(manager), FencingToken::new(token));
        let new = NewReclaim { agent, name: name(text), mode, token, metadata: None, max_hold_ms: None };
        manager.handle(at(1), Command::Reclaim(new))
    }

    /// What becomes of the requests of others, and of the absence.
    fn effects(manager: &mut Manager) -> Vec<&'static str> {
        std::iter::from_fn(|| manager.poll_effect())
            .filter_map(|effect| match effect {
                Effect::Granted { .. } => Some("granted"),
                Effect::Lost { .. } => Some("lost"),
                Effect::AgentEnded { .. } => Some("ended"),
                Effect::Recovered => Some("recovered"),
                Effect::Unavailable { .. } | Effect::Change(_) => None,
            })
            .collect()
    }

    const WAIT: Acquire = Acquire::Wait(Mode::Exclusive);

    #[test]
    fn a_listed_name_waits_for_its_holder_and_others_are_granted_at_once() {
        let mut manager = manager(&[("n", Mode::Exclusive, 7)]);
        assert!(matches!(request(&mut manager, "other", WAIT), Outcome::Granted(_)));
        assert!(matches!(request(&mut manager, "n", WAIT), Outcome::Queued(_)));
        let refused = request(&mut manager, "n", Acquire::IfAvailable(Mode::Shared));
        let Outcome::Refused(Refusal::Unavailable { holders, queued: 1 }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(&*holders[0].label, "away");
        let Outcome::Granted(grant) = reclaim(&mut manager, "n", Mode::Exclusive, 7) else { panic!() };
        assert_eq!((grant.token.get(), effects(&mut manager)), (7, vec![]));
        assert!(!manager.has_absent());
        manager.handle(at(2), Command::Release { request: grant.request });
        assert_eq!(effects(&mut manager), ["granted"]);
    }

    #[test]
    fn only_what_is_listed_is_reclaimed_and_that_once() {
        let mut manager =
            manager(&[("n", Mode::Shared, 7), ("n", Mode::Shared, 8), ("m", Mode::Exclusive, 9)]);
        for (text, mode, token) in [
            ("n", Mode::Exclusive, 7),
            ("m", Mode::Shared, 7),
            ("n", Mode::Shared, 6),
            ("n", Mode::Exclusive, 9),
        ] {
            let outcome = reclaim(&mut manager, text, mode, token);
            assert_eq!(outcome, Outcome::Refused(Refusal::NotRecovering), "{text} {mode:?} {token}");
        }
        assert!(matches!(reclaim(&mut manager, "n", Mode::Shared, 7), Outcome::Granted(_)));
        assert_eq!(reclaim(&mut manager, "n", Mode::Shared, 7), Outcome::Refused(Refusal::NotRecovering));
        assert_eq!((manager.held_web_locks(), manager.has_absent()), (3, true));
    }

    #[test]
    fn what_is_given_up_goes_to_those_that_wait() {
        let mut manager = manager(&[("n", Mode::Shared, 7), ("n", Mode::Shared, 8)]);
        assert!(matches!(request(&mut manager, "n", WAIT), Outcome::Queued(_)));
        manager.give_up_absent(at(2), FencingToken::new(7));
        assert_eq!(effects(&mut manager), Vec::<&str>::new());
        manager.give_up_absent(at(2), FencingToken::new(7));
        manager.give_up_absent(at(2), FencingToken::new(8));
        assert_eq!(effects(&mut manager), ["granted"]);
        assert!(!manager.has_absent());
        // A client that has not got the answer to its reclaim may show its old ticket until then.
        manager.handle_timeout(at(999));
        assert!(manager.takes_reclaims());
        manager.handle_timeout(UNTIL);
        assert_eq!((effects(&mut manager), manager.next_timeout()), (vec!["recovered"], None));
    }

    #[test]
    fn the_absence_ends_with_its_time_and_what_was_reclaimed_stays() {
        let mut manager = manager(&[("n", Mode::Exclusive, 7), ("m", Mode::Exclusive, 8)]);
        assert!(matches!(reclaim(&mut manager, "m", Mode::Exclusive, 8), Outcome::Granted(_)));
        assert!(matches!(request(&mut manager, "n", WAIT), Outcome::Queued(_)));
        assert!(matches!(request(&mut manager, "m", WAIT), Outcome::Queued(_)));
        manager.handle_timeout(at(999));
        assert_eq!(effects(&mut manager), Vec::<&str>::new());
        manager.handle_timeout(UNTIL);
        assert_eq!(effects(&mut manager), ["recovered", "granted"]);
        assert_eq!(reclaim(&mut manager, "n", Mode::Exclusive, 7), Outcome::Refused(Refusal::NotRecovering));
    }

    #[test]
    fn a_steal_takes_from_a_holder_that_is_away_and_its_reclaim_comes_too_late() {
        let mut manager = manager(&[("n", Mode::Exclusive, 7)]);
        assert!(matches!(request(&mut manager, "n", Acquire::Steal), Outcome::Granted(_)));
        assert_eq!((effects(&mut manager), manager.has_absent()), (vec![], false));
        assert_eq!(reclaim(&mut manager, "n", Mode::Exclusive, 7), Outcome::Refused(Refusal::NotRecovering));
    }

    #[test]
    fn a_name_that_is_held_otherwise_takes_no_lock_of_an_absent_holder() {
        let mut manager = manager(&[("n", Mode::Exclusive, 7)]);
        assert!(!manager.hold_absent(at(0), name("n"), Mode::Shared, FencingToken::new(8)));
        assert_eq!(manager.held_remotely(), 1);
    }

    #[test]
    fn a_lock_that_is_reclaimed_is_granted_once_and_its_stand_in_is_no_hold_that_ended() {
        let mut manager = Manager::new(FixedState::default());
        manager.start_events(100);
        manager.continue_tokens_above(100);
        manager.begin_absence(at(0), UNTIL, "away");
        for (text, token) in [("n", 7), ("m", 8)] {
            manager.hold_absent(at(0), name(text), Mode::Exclusive, FencingToken::new(token));
        }
        assert!(!manager.has_events());
        assert_eq!(manager.gauges().parties[Discipline::Web as usize], 0, "nobody is there yet");
        let Outcome::Granted(_) = reclaim(&mut manager, "n", Mode::Exclusive, 7) else { panic!() };
        manager.give_up_absent(at(2), FencingToken::new(8));
        let events = std::iter::from_fn(|| manager.poll_event());
        let events: Vec<_> = events.map(|event| (event.kind, event.who, event.token)).collect();
        assert_eq!(
            events,
            [
                (EventKind::Granted, "back".into(), Some(FencingToken::new(7))),
                (EventKind::Ended(EndCause::NotReclaimed), "away".into(), Some(FencingToken::new(8))),
            ]
        );
        let totals = manager.totals().unwrap();
        assert_eq!(totals.holds_ms[Discipline::Web as usize].count(), 1);
        assert_eq!(totals.lost[Discipline::Web as usize][LossCause::NotReclaimed as usize], 1);
    }

    #[test]
    fn a_full_table_takes_what_was_in_it_before() {
        let limits = Limits { entries: 2, names: 1, agents: 1, ..Limits::DEFAULT };
        let mut manager = LockManager::with_limits(FixedState::default(), limits);
        manager.continue_tokens_above(100);
        manager.begin_absence(at(0), UNTIL, "away");
        let Outcome::Joined(agent) = manager.handle(at(0), Command::Join(NewAgent::new("back"))) else {
            panic!()
        };
        for (text, token) in [("n", 7), ("m", 8)] {
            assert!(manager.hold_absent(at(0), name(text), Mode::Exclusive, FencingToken::new(token)));
        }
        for (text, token) in [("n", 7), ("m", 8)] {
            let (mode, token) = (Mode::Exclusive, FencingToken::new(token));
            let new = NewReclaim { agent, name: name(text), mode, token, metadata: None, max_hold_ms: None };
            let outcome = manager.handle(at(1), Command::Reclaim(new));
            assert!(matches!(outcome, Outcome::Granted(_)), "{outcome:?}");
        }
    }
}
