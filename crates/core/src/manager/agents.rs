//! Agents: their beginning, their lease and their end.

use std::hash::BuildHasher;

use super::LockManager;
use super::deadlines::Due;
use super::table::Lease;
use crate::{AgentId, Effect, EndReason, Instant, LossReason, NewAgent, Refusal};

impl<S: BuildHasher> LockManager<S> {
    pub(super) fn join(&mut self, now: Instant, agent: NewAgent<'_>) -> Result<AgentId, Refusal> {
        let limit = self.limits.agents;
        if self.table.parties.len() >= limit as usize {
            return Err(Refusal::TooManyAgents { limit });
        }
        let id = self.table.add_party(agent.client_id);
        if let Some(length_ms) = agent.lease_ms {
            let ends = now.plus_millis(length_ms);
            self.table.parties[id.slot].lease = Some(Lease { length_ms, ends, armed: ends });
            self.deadlines.arm_lease(id, ends);
        }
        Ok(id)
    }

    /// O(1): the deadline that is armed already finds out when it fires.
    pub(super) fn renew(&mut self, now: Instant, agent: AgentId) -> bool {
        let Some(party) = self.table.party_mut(agent) else { return false };
        if let Some(lease) = &mut party.lease {
            lease.ends = now.plus_millis(lease.length_ms);
        }
        true
    }

    /// <https://w3c.github.io/web-locks/#terminate-remaining-locks-and-requests>
    ///
    /// All its requests and locks go before any queue is processed, so that none of its own requests is granted in between.
    pub(super) fn terminate_remaining_locks_and_requests(&mut self, now: Instant, agent: AgentId) -> bool {
        let Some(party) = self.table.party_mut(agent) else { return false };
        if let Some(lease) = party.lease {
            self.deadlines.disarm_lease(agent, lease.armed);
        }
        self.remove_all_of(agent);
        self.process_touched(now);
        true
    }

    pub(super) fn expire(&mut self, due: Due) {
        match due {
            Due::Hold(request) => {
                // Only held locks arm such a deadline, and whoever takes one away disarms it.
                let name = self.table.entries[request.slot].name;
                self.lose(request.slot, LossReason::Expired);
                self.touched.push(name);
            }
            Due::Lease(agent) => {
                let lease = self.table.parties[agent.slot].lease.as_mut();
                let lease = lease.expect("only a party with a lease arms one");
                if lease.ends > lease.armed {
                    // It was renewed. If it is due all the same, its turn comes in the order of the deadlines.
                    lease.armed = lease.ends;
                    self.deadlines.arm_lease(agent, lease.ends);
                } else {
                    self.remove_all_of(agent);
                    self.effects.push_back(Effect::AgentEnded { agent, reason: EndReason::Expired });
                }
            }
        }
    }

    fn remove_all_of(&mut self, agent: AgentId) {
        let Self { table, touched, deadlines, .. } = self;
        table.remove_party(agent.slot, |removed| {
            deadlines.disarm_hold(removed);
            touched.push(removed.name);
        });
    }
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::{Command, Outcome};

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
}
