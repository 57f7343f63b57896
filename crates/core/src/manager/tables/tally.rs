//! Counts of what has happened in a lock table, kept only where they are asked for.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use super::super::LockManager;
use super::feed::{Feed, Surroundings};
use super::table::{LockTable, PartySlot, Tenure};
use crate::{
    AgentId, Command, Discipline, FencingToken, Gauges, Instant, LossCause, NewRequest, Outcome, Refusal,
    RefusalCause, RequestId, Totals,
};

impl From<Tenure> for Discipline {
    #[inline]
    fn from(tenure: Tenure) -> Self {
        match tenure {
            Tenure::Agent(_) => Self::Web,
            Tenure::Owner(_) => Self::Offline,
            Tenure::Ttl(_) => Self::Claim,
        }
    }
}

/// The counts of a lock table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableTally {
    /// The time of the present command.
    pub(super) now: Instant,
    totals: Totals,
    /// By the second since which requests wait: how many.
    waiting: BTreeMap<u64, u32>,
    /// The next removal is no end: another entry takes the place of the one that goes.
    is_replaced: bool,
    /// What happens, if that is asked for, too.
    pub(super) feed: Option<Feed>,
}

impl TableTally {
    fn granted(&mut self, discipline: Discipline, since: Instant) {
        self.totals.granted[discipline as usize] += 1;
        if discipline == Discipline::Web {
            self.totals.waits_ms.add(self.now.as_millis().saturating_sub(since.as_millis()));
        }
    }

    fn ended(&mut self, discipline: Discipline, since: Instant) {
        let ms = self.now.as_millis().saturating_sub(since.as_millis());
        self.totals.holds_ms[discipline as usize].add(ms);
    }

    #[inline(never)]
    fn begins_to_wait(&mut self, since: Instant) {
        *self.waiting.entry(since.as_millis() / 1000).or_default() += 1;
    }

    #[inline(never)]
    fn waits_no_more(&mut self, since: Instant) {
        let second = since.as_millis() / 1000;
        // What waited before the counts began is in none of them.
        if let Some(count) = self.waiting.get_mut(&second) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&second);
            }
        }
    }
}

// Without counts each of these is a branch, and nothing else.
impl<S: BuildHasher> LockTable<S> {
    /// The entry in that slot is granted under that token: the next step makes it a lock.
    #[inline(always)]
    pub(crate) fn tally_grant(&mut self, slot: u32, token: FencingToken) {
        if self.tally.is_some() {
            self.note_grant(slot, token);
        }
    }

    /// The entry in that slot is a web lock again that was reclaimed under that token.
    #[inline]
    pub(crate) fn tally_reclaim(&mut self, slot: u32, token: FencingToken) {
        let Self { entries, names, parties, claims, tally, .. } = self;
        if let Some(tally) = tally
            && let Some(feed) = &mut tally.feed
        {
            let around = Surroundings { names, parties, claims, leaving: None };
            feed.granted(&entries[slot], token, tally.now, around);
        }
    }

    /// The entry in that slot begins to wait.
    #[inline(always)]
    pub(crate) fn tally_wait(&mut self, slot: u32) {
        let Self { entries, names, parties, claims, tally, .. } = self;
        if let Some(tally) = tally {
            tally.begins_to_wait(entries[slot].since);
            if let Some(feed) = &mut tally.feed {
                let around = Surroundings { names, parties, claims, leaving: None };
                feed.waits(&entries[slot], tally.now, around);
            }
        }
    }

    /// The entry in that slot, which has waited, is about to be granted.
    #[inline(always)]
    pub(crate) fn tally_end_of_wait(&mut self, slot: u32) {
        if let Some(tally) = &mut self.tally {
            tally.waits_no_more(self.entries[slot].since);
        }
    }

    /// The entry in that slot is about to go; with the whole party, which is in no arena any more, if that
    /// leaves.
    #[inline(always)]
    pub(crate) fn tally_end(&mut self, slot: u32, leaving: Option<&PartySlot>) {
        if self.tally.is_some() {
            self.note_end(slot, leaving);
        }
    }

    #[inline(never)]
    fn note_grant(&mut self, slot: u32, token: FencingToken) {
        let Self { entries, names, parties, claims, tally, .. } = self;
        let (entry, Some(tally)) = (&entries[slot], tally) else { return };
        tally.granted(entry.tenure().into(), entry.since);
        if let Some(feed) = &mut tally.feed {
            let around = Surroundings { names, parties, claims, leaving: None };
            feed.granted(entry, token, tally.now, around);
        }
    }

    #[inline(never)]
    fn note_end(&mut self, slot: u32, leaving: Option<&PartySlot>) {
        let Self { entries, names, parties, claims, tally, .. } = self;
        let (entry, Some(tally)) = (&entries[slot], tally) else { return };
        if std::mem::take(&mut tally.is_replaced) {
            return;
        }
        match entry.token {
            Some(_) => tally.ended(entry.tenure().into(), entry.since),
            None => tally.waits_no_more(entry.since),
        }
        if let Some(feed) = &mut tally.feed {
            feed.ended(entry, tally.now, Surroundings { names, parties, claims, leaving });
        }
    }

    /// The entry that is removed next has not ended: another one takes its place.
    pub(crate) fn is_replaced(&mut self) {
        if let Some(tally) = &mut self.tally {
            tally.is_replaced = true;
        }
    }

    /// So many holders lose their locks.
    pub(crate) fn tally_loss(&mut self, discipline: Discipline, cause: LossCause, count: usize) {
        if let Some(tally) = &mut self.tally {
            tally.totals.lost[discipline as usize][cause as usize] += count as u64;
        }
    }
}

impl<S: BuildHasher> LockManager<S> {
    /// From now on counts what happens. For a manager in which nothing waits.
    pub fn start_tally(&mut self) {
        debug_assert!(self.table.tally.is_none(), "the counts of a table begin once");
        self.table.tally = Some(Box::default());
    }

    /// What has happened since [`start_tally`](Self::start_tally), or since
    /// [`start_events`](Self::start_events); none without either.
    pub fn totals(&self) -> Option<&Totals> {
        self.table.tally.as_ref().map(|tally| &tally.totals)
    }

    /// The commands that follow come at that time: waits and holds that end with them are measured by it.
    #[inline(always)]
    pub fn set_tally_time(&mut self, now: Instant) {
        if let Some(tally) = &mut self.table.tally {
            tally.now = now;
        }
    }

    /// Counts a request for a web lock, and its refusal.
    #[inline(always)]
    pub fn tally_request<T>(&mut self, request: &NewRequest<'_>, outcome: &Result<T, Refusal>) {
        if self.table.tally.is_some() {
            self.note_request(request, outcome.as_ref().err());
        }
    }

    #[inline(never)]
    fn note_request(&mut self, request: &NewRequest<'_>, refusal: Option<&Refusal>) {
        let Some(tally) = &mut self.table.tally else { return };
        tally.totals.requested[Discipline::Web as usize] += 1;
        if let Some(refusal) = refusal {
            tally.totals.refused[Discipline::Web as usize][RefusalCause::from(refusal) as usize] += 1;
            self.note_refused_request(request, refusal);
        }
    }

    /// Counts a command and its outcome, whether or not the manager has seen the command.
    #[inline(always)]
    pub fn tally_command(&mut self, command: &Command<'_>, outcome: &Outcome) {
        if self.table.tally.is_some() {
            self.tally_any_command(command, outcome);
        }
    }

    #[inline(never)]
    fn tally_any_command(&mut self, command: &Command<'_>, outcome: &Outcome) {
        let Some(TableTally { totals, .. }) = self.table.tally.as_deref_mut() else { return };
        let (discipline, requested) = match command {
            Command::Request(_) => (Discipline::Web, 1),
            Command::Lock(locks) => (Discipline::Offline, locks.locks.len() as u64),
            Command::Claim(_) => (Discipline::Claim, 1),
            Command::OpenOwner(_) => (Discipline::Offline, 0),
            Command::RenewClaim { .. } | Command::ReleaseClaim { .. } | Command::Finalize { .. } => {
                (Discipline::Claim, 0)
            }
            _ => (Discipline::Web, 0),
        };
        totals.requested[discipline as usize] += requested;
        match outcome {
            Outcome::Refused(refusal) => {
                totals.refused[discipline as usize][RefusalCause::from(refusal) as usize] += 1;
                self.note_refused_command(command, refusal);
            }
            Outcome::Granted(_) if matches!(command, Command::Reclaim(_)) => totals.reclaimed += 1,
            _ => {}
        }
    }

    /// The agent is about to be ended by a command, as its lease is over: what it holds counts as lost. O(its
    /// requests and locks).
    pub fn tally_silent(&mut self, agent: AgentId) {
        if self.table.tally.is_some() {
            self.table.agent_is_silent(agent);
            let is_held =
                |request: &RequestId| self.table.entry(*request).is_some_and(|entry| entry.token.is_some());
            let held = self.table.requests_of(agent).filter(is_held).count();
            self.table.tally_loss(Discipline::Web, LossCause::Lease, held);
        }
    }

    /// How much there is at the moment. O(1).
    pub fn gauges(&self) -> Gauges {
        let table = &self.table;
        let (owned, claims) = (table.owned_entries(), table.claims.len());
        let web = table.held_web_locks();
        let oldest = table.tally.as_ref().and_then(|tally| tally.waiting.first_key_value());
        let parties = [table.agents() - self.stand_ins(), table.owners.len(), claims];
        Gauges {
            held: [web, owned - table.void_locks, claims],
            waiting: table.entries.len() - web - owned - claims,
            waits_since: oldest.map(|(second, _)| Instant::from_millis(second * 1000)),
            parties,
        }
    }
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::{
        Acquire, FencingToken, Histogram, HoldToBreak, Mode, Name, NewAgent, NewClaim, NewLocks, NewOwner,
        NewRequest, SecretSeed,
    };

    type Manager = LockManager<FixedState>;

    const WAIT: Acquire = Acquire::Wait(Mode::Exclusive);

    fn manager() -> Manager {
        let mut manager = Manager::new(FixedState::default());
        manager.start_tally();
        manager
    }

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

    fn time_passes(manager: &mut Manager, ms: u64) {
        manager.set_tally_time(Instant::from_millis(ms));
        manager.handle_timeout(Instant::from_millis(ms));
        while manager.poll_effect().is_some() {}
    }

    fn join(manager: &mut Manager, lease_ms: Option<u64>) -> AgentId {
        match run(manager, 0, Command::Join(NewAgent { client_id: "", lease_ms })) {
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

    fn in_ranges(histogram: &Histogram) -> Vec<(Option<u64>, u64)> {
        histogram.ranges().filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn waits_and_holds_last_from_request_to_grant_and_from_there_to_the_end() {
        let mut manager = manager();
        let (one, other) = (join(&mut manager, None), join(&mut manager, None));
        let first = request(&mut manager, 1_000, one, WAIT).unwrap();
        request(&mut manager, 2_500, other, WAIT).unwrap();
        assert_eq!(manager.gauges().waits_since, Some(Instant::from_millis(2_000)));
        assert_eq!((manager.gauges().held, manager.gauges().waiting), ([1, 0, 0], 1));
        run(&mut manager, 10_000, Command::Release { request: first });
        assert_eq!((manager.gauges().held, manager.gauges().waiting), ([1, 0, 0], 0));
        assert_eq!(manager.gauges().waits_since, None);
        run(&mut manager, 10_050, Command::End { agent: other });
        let totals = *manager.totals().unwrap();
        assert_eq!((totals.requested, totals.granted), ([2, 0, 0], [2, 0, 0]));
        assert_eq!(in_ranges(&totals.waits_ms), [(Some(0), 1), (Some(10_000), 1)]);
        assert_eq!(totals.waits_ms.sum(), 7_500);
        assert_eq!(in_ranges(&totals.holds_ms[0]), [(Some(100), 1), (Some(10_000), 1)]);
        assert_eq!(totals.holds_ms[0].sum(), 9_050);
    }

    #[test]
    fn the_oldest_wait_is_known_whichever_request_goes() {
        let mut manager = manager();
        let agent = join(&mut manager, None);
        request(&mut manager, 0, agent, WAIT);
        let waiting: Vec<_> =
            (1..=3).map(|second| request(&mut manager, second * 1_000, agent, WAIT).unwrap()).collect();
        let since = |manager: &Manager| manager.gauges().waits_since.map(Instant::as_millis);
        assert_eq!(since(&manager), Some(1_000));
        run(&mut manager, 4_000, Command::Abort { request: waiting[1] });
        assert_eq!(since(&manager), Some(1_000));
        run(&mut manager, 4_000, Command::Abort { request: waiting[0] });
        assert_eq!(since(&manager), Some(3_000));
        run(&mut manager, 4_000, Command::End { agent });
        assert_eq!((since(&manager), manager.gauges().waiting), (None, 0));
    }

    #[test]
    fn every_loss_is_counted_with_its_cause() {
        let mut manager = manager();
        let (one, other) = (join(&mut manager, Some(10)), join(&mut manager, None));
        request(&mut manager, 0, one, WAIT);
        time_passes(&mut manager, 10);
        request(&mut manager, 10, other, WAIT);
        request(&mut manager, 10, other, Acquire::Steal);
        let new =
            NewClaim { name: name("c"), claimant: "", ttl_ms: 100, seed: SecretSeed(1), metadata: None };
        run(&mut manager, 10, Command::Claim(new));
        let owner = NewOwner { label: "", metadata: None, ttl_ms: 100, max_ms: None, seed: SecretSeed(2) };
        let Outcome::OwnerOpened(owner) = run(&mut manager, 10, Command::OpenOwner(owner)) else { panic!() };
        let locks = [(name("a"), Mode::Shared), (name("b"), Mode::Exclusive)];
        run(&mut manager, 10, Command::Lock(NewLocks { owner, locks: &locks, metadata: None }));
        assert_eq!((manager.gauges().held, manager.gauges().parties), ([1, 2, 1], [1, 1, 1]));
        time_passes(&mut manager, 110);
        assert_eq!((manager.gauges().held, manager.gauges().parties), ([1, 0, 0], [1, 0, 0]));
        let totals = manager.totals().unwrap();
        let lost =
            |discipline: Discipline, cause: LossCause| totals.lost[discipline as usize][cause as usize];
        assert_eq!(lost(Discipline::Web, LossCause::Lease), 1);
        assert_eq!(lost(Discipline::Web, LossCause::Stolen), 1);
        assert_eq!(lost(Discipline::Claim, LossCause::Ttl), 1);
        assert_eq!(lost(Discipline::Offline, LossCause::Ttl), 2);
        assert_eq!(totals.lost.as_flattened().iter().sum::<u64>(), 5);
        assert_eq!((totals.requested, totals.granted), ([3, 2, 1], [3, 2, 1]));
    }

    #[test]
    fn a_hold_that_an_operator_breaks_is_lost_whatever_holds_it() {
        let mut manager = manager();
        let agent = join(&mut manager, None);
        let owner = NewOwner { label: "", metadata: None, ttl_ms: 100, max_ms: None, seed: SecretSeed(1) };
        let Outcome::OwnerOpened(owner) = run(&mut manager, 0, Command::OpenOwner(owner)) else { panic!() };
        let locks = [(name("a"), Mode::Exclusive)];
        let new =
            NewClaim { name: name("c"), claimant: "", ttl_ms: 100, seed: SecretSeed(2), metadata: None };
        for (name, take) in [
            (name("n"), Command::Request(NewRequest::new(agent, name("n"), WAIT))),
            (name("a"), Command::Lock(NewLocks { owner, locks: &locks, metadata: None })),
            (name("c"), Command::Claim(new)),
        ] {
            run(&mut manager, 0, take);
            let token = FencingToken::new(manager.last_token());
            let broken = Command::Break(HoldToBreak { name, token, operator: "", reason: None });
            assert!(matches!(run(&mut manager, 0, broken), Outcome::Broken(Some(_))));
        }
        let totals = manager.totals().unwrap();
        for discipline in Discipline::ALL {
            assert_eq!(totals.lost[discipline as usize][LossCause::Broken as usize], 1, "{discipline:?}");
        }
        assert_eq!((totals.lost.as_flattened().iter().sum::<u64>(), manager.gauges().held), (3, [0; 3]));
    }

    #[test]
    fn what_a_silent_agent_holds_is_lost_and_what_it_waits_for_is_not() {
        let mut manager = manager();
        let (silent, other) = (join(&mut manager, None), join(&mut manager, None));
        request(&mut manager, 0, silent, WAIT);
        request(&mut manager, 0, silent, WAIT);
        request(&mut manager, 0, other, WAIT);
        manager.tally_silent(silent);
        run(&mut manager, 0, Command::End { agent: silent });
        run(&mut manager, 0, Command::End { agent: other });
        let totals = manager.totals().unwrap();
        assert_eq!(totals.lost[Discipline::Web as usize][LossCause::Lease as usize], 1);
        assert_eq!(totals.lost.as_flattened().iter().sum::<u64>(), 1);
    }

    #[test]
    fn refusals_are_counted_with_their_cause_and_change_nothing_else() {
        let mut manager = manager();
        let agent = join(&mut manager, None);
        request(&mut manager, 0, agent, WAIT);
        assert_eq!(request(&mut manager, 0, agent, Acquire::IfAvailable(Mode::Shared)), None);
        let renew = Command::RenewClaim { name: name("n"), token: None };
        run(&mut manager, 0, renew);
        let totals = manager.totals().unwrap();
        assert_eq!(totals.refused[Discipline::Web as usize][RefusalCause::Taken as usize], 1);
        assert_eq!(totals.refused[Discipline::Claim as usize][RefusalCause::Ended as usize], 1);
        assert_eq!(totals.refused.as_flattened().iter().sum::<u64>(), 2);
        assert_eq!((totals.requested, totals.granted), ([2, 0, 0], [1, 0, 0]));
    }
}
