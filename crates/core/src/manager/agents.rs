//! Agents: their beginning, their lease and their end; and all other ends by time.

use std::hash::BuildHasher;

use super::LockManager;
use super::tables::deadlines::Due;
use super::tables::table::{ArmedLease, Tenure};
use crate::{
    AgentId, ClaimEnd, Discipline, Effect, EndCause, EndReason, Instant, LossCause, LossReason, NewAgent,
    Now, Refusal,
};

impl<S: BuildHasher> LockManager<S> {
    pub(super) fn join(&mut self, now: Now, agent: NewAgent<'_>) -> Result<AgentId, Refusal> {
        let limit = self.limits.agents;
        if self.table.agents() - self.stand_ins() >= limit as usize {
            return Err(Refusal::TooManyAgents { limit });
        }
        let id = self.table.add_party(agent.client_id, None);
        if let Some(length_ms) = agent.lease_ms {
            self.give_lease(id, length_ms, now.deadline(length_ms));
        }
        Ok(id)
    }

    pub(super) fn give_lease(&mut self, party: AgentId, length_ms: u64, ends: Instant) {
        self.table.parties[party.slot].lease = Some(ArmedLease { length_ms, ends, armed: ends });
        self.deadlines.arm_lease(party, ends);
    }

    /// O(1): the armed deadline notices the renewal when it fires.
    pub(super) fn renew(&mut self, now: Now, agent: AgentId) -> bool {
        let Some(party) = self.table.party_mut(agent) else { return false };
        if let Some(lease) = &mut party.lease {
            lease.ends = lease.ends.max(now.deadline(lease.length_ms));
        }
        true
    }

    /// <https://w3c.github.io/web-locks/#terminate-remaining-locks-and-requests>
    ///
    /// All requests and locks of the agent are removed before any queue is processed, so that none of its own
    /// requests is granted in between.
    pub(super) fn terminate_remaining_locks_and_requests(&mut self, now: Now, agent: AgentId) -> bool {
        let Some(party) = self.table.party_mut(agent) else { return false };
        if let Some(lease) = party.lease {
            self.deadlines.disarm_lease(agent, lease.armed);
        }
        self.table.agent_ends(agent);
        self.remove_all_of(agent.slot);
        self.process_touched(now);
        true
    }

    /// Ends the due party, lock or claim, unless it was renewed.
    pub(super) fn expire(&mut self, now: Now, due: Due) {
        match due {
            Due::Hold(entry) => {
                // Only held locks and claims arm such a deadline, and their removal disarms it.
                let name = self.table.entries[entry.slot].name;
                if let Tenure::Ttl(claim) = self.table.entries[entry.slot].tenure() {
                    let lease = &mut self.table.claims[claim].lease;
                    if let Some(ends) = lease.rearm() {
                        return self.deadlines.arm_hold(entry, Some(ends));
                    }
                    self.end_claim(now, entry.slot, ClaimEnd::Expired);
                } else {
                    self.break_lock(entry.slot, LossReason::Expired, None);
                }
                self.touched.push(name);
            }
            Due::Lease(party) => {
                let lease = self.table.parties[party.slot].lease.as_mut();
                let lease = lease.expect("only a party with a lease arms one");
                if let Some(ends) = lease.rearm() {
                    self.deadlines.arm_lease(party, ends);
                } else if self.table.parties[party.slot].owner.is_some() {
                    self.expire_owner(now, party.slot);
                } else {
                    let (is_absent, held) = (self.is_absent(party.slot), self.table.held_web_locks());
                    let end = if is_absent { EndCause::NotReclaimed } else { EndCause::Lease };
                    self.table.ends_for(|| end);
                    self.remove_all_of(party.slot);
                    let cause = if is_absent { LossCause::NotReclaimed } else { LossCause::Lease };
                    let lost = held - self.table.held_web_locks();
                    self.table.tally_loss(Discipline::Web, cause, lost);
                    if is_absent {
                        return self.absence_ended();
                    }
                    self.effects.push_back(Effect::AgentEnded { agent: party, reason: EndReason::Expired });
                }
            }
        }
    }

    /// The party is removed with all its entries; the names that it leaves are still to be processed.
    pub(super) fn remove_all_of(&mut self, party: u32) {
        let Self { table, touched, deadlines, .. } = self;
        table.remove_party(party, |removed| {
            deadlines.disarm_hold(removed);
            touched.push(removed.name);
        });
        table.ended_all();
    }
}

impl ArmedLease {
    /// The deadline to arm anew, if the lease was renewed. Even if that deadline is due at once, it fires in
    /// the order of the deadlines.
    fn rearm(&mut self) -> Option<Instant> {
        let renewed = self.ends > self.armed;
        self.armed = self.ends.max(self.armed);
        renewed.then_some(self.ends)
    }
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::{Acquire, Command, Mode, Name, NewRequest, Outcome};

    #[test]
    fn a_renewed_lease_that_is_due_ends_after_those_due_before_it() {
        let mut manager = LockManager::new(FixedState::default());
        let mut join = |lease_ms| {
            let agent = NewAgent { client_id: "", lease_ms: Some(lease_ms) };
            match manager.handle(Instant::from_millis(0), Command::Join(agent)) {
                Outcome::Joined(agent) => agent,
                other => panic!("{other:?}"),
            }
        };
        let (renewed, other) = (join(10), join(12));
        manager.handle(Instant::from_millis(5), Command::Renew { agent: renewed });
        manager.handle_timeout(Instant::from_millis(20));
        let ended = |agent| Some(Effect::AgentEnded { agent, reason: EndReason::Expired });
        assert_eq!([manager.poll_effect(), manager.poll_effect()], [ended(other), ended(renewed)]);
        assert_eq!(manager.next_timeout(), None);
    }

    #[test]
    fn agents_that_are_due_end_in_parts_and_none_inherits_before_the_last() {
        let mut manager = LockManager::new(FixedState::default());
        let at = Instant::from_millis;
        let agents: Vec<_> = (0..3)
            .map(|_| {
                let agent = NewAgent { client_id: "", lease_ms: Some(10) };
                let Outcome::Joined(agent) = manager.handle(at(0), Command::Join(agent)) else { panic!() };
                let request = NewRequest::new(agent, Name::new("n").unwrap(), Acquire::Wait(Mode::Exclusive));
                manager.handle(at(0), Command::Request(request));
                agent
            })
            .collect();
        assert!(!manager.handle_timeout_in_part(at(10), at(10), 2));
        assert!(manager.handle_timeout_in_part(at(10), at(10), 2));
        let effects: Vec<_> = std::iter::from_fn(|| manager.poll_effect()).collect();
        let ended = agents.into_iter().map(|agent| Effect::AgentEnded { agent, reason: EndReason::Expired });
        assert!(ended.eq(effects.into_iter().filter(|effect| !matches!(effect, Effect::Change(_)))));
        assert_eq!((manager.len(), manager.next_timeout()), (0, None));
    }

    #[test]
    fn what_an_agent_leaves_before_a_larger_one_that_is_due_is_not_inherited_in_between() {
        let mut manager = LockManager::new(FixedState::default());
        let at = Instant::from_millis;
        let join = |manager: &mut LockManager<_>, lease_ms| {
            let Outcome::Joined(agent) =
                manager.handle(at(0), Command::Join(NewAgent { client_id: "", lease_ms }))
            else {
                panic!()
            };
            agent
        };
        let request = |manager: &mut LockManager<_>, agent, name| {
            let request = NewRequest::new(agent, Name::new(name).unwrap(), Acquire::Wait(Mode::Exclusive));
            manager.handle(at(0), Command::Request(request))
        };
        let (small, large, other) =
            (join(&mut manager, Some(10)), join(&mut manager, Some(10)), join(&mut manager, None));
        request(&mut manager, small, "a");
        for name in ["a", "b", "c"] {
            request(&mut manager, large, name);
        }
        request(&mut manager, other, "d");
        assert!(!manager.handle_timeout_in_part(at(10), at(10), 2));
        manager.handle(at(10), Command::End { agent: other });
        while !manager.handle_timeout_in_part(at(10), at(10), 2) {}
        let effects: Vec<_> = std::iter::from_fn(|| manager.poll_effect()).collect();
        let granted = effects.iter().filter(|effect| matches!(effect, Effect::Granted { .. })).count();
        assert_eq!((granted, manager.len()), (0, 0), "{effects:?}");
    }

    #[test]
    fn the_names_that_a_crowd_leaves_are_processed_in_parts_once_all_have_ended_and_by_no_other_command() {
        let mut manager = LockManager::new(FixedState::default());
        let at = Instant::from_millis;
        let names = ["a", "b", "c", "d", "e"].map(|name| Name::new(name).unwrap());
        let join = |manager: &mut LockManager<_>, lease_ms| {
            let agent = NewAgent { client_id: "", lease_ms };
            let Outcome::Joined(agent) = manager.handle(at(0), Command::Join(agent)) else { panic!() };
            agent
        };
        let request = |manager: &mut LockManager<_>, agent, name| {
            let request = NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive));
            manager.handle(at(0), Command::Request(request))
        };
        for name in names {
            let dying = join(&mut manager, Some(10));
            request(&mut manager, dying, name);
        }
        let heir = join(&mut manager, None);
        for name in names {
            assert!(matches!(request(&mut manager, heir, name), Outcome::Queued(_)));
        }
        let mut parts = Vec::new();
        loop {
            let is_done = manager.handle_timeout_in_part(at(10), at(10), 2);
            // The request of another agent ends; the names of the crowd are not processed.
            let other = join(&mut manager, None);
            request(&mut manager, other, Name::new("other").unwrap());
            manager.handle(at(10), Command::End { agent: other });
            let effects: Vec<_> = std::iter::from_fn(|| manager.poll_effect()).collect();
            let ended = effects.iter().filter(|effect| matches!(effect, Effect::AgentEnded { .. })).count();
            let granted = effects.iter().filter(|effect| matches!(effect, Effect::Granted { .. })).count();
            parts.push((ended, granted));
            assert_eq!(is_done, manager.next_timeout().is_none());
            if is_done {
                break;
            }
        }
        assert_eq!(parts, [(2, 0), (2, 0), (1, 1), (0, 2), (0, 2)]);
    }
}
