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

    pub(super) fn expire(&mut self, now: Instant, due: Due) {
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
                if lease.ends > now {
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
