//! Agents, and all things that end by themselves. The specification knows neither leases nor longest holds.

use lockhouse_core::{
    AgentId, Effect, EndReason, FencingToken, Instant, LockLoss, LossReason, NameBuf, NewAgent, Outcome,
    OwnerEnd, OwnerId, Refusal, RequestId,
};

use super::{Agent, Literal, Unnamed, touch};

/// The things that end by themselves, in the order in which they end when due at the same instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Lease { born: u64, who: Leased },
    Hold { born: u64, what: Held },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Leased {
    Agent(AgentId),
    Owner(OwnerId),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Lock(RequestId),
    Claim(FencingToken),
}

impl Literal {
    /// Everything due ends first, in the order of the deadlines; then the queues are processed. Requests that
    /// have waited for the end of a recovery are processed by names, in the order `settled` as far as it
    /// says.
    pub(in crate::oracle) fn handle_timeout(&mut self, now: Instant, settled: &[NameBuf]) {
        self.came = now;
        let mut due = self.deadlines();
        due.retain(|(at, _)| *at <= now);
        due.sort();
        let mut touched = Vec::new();
        for (_, due) in due {
            match due {
                Due::Lease { who: Leased::Agent(agent), .. } => {
                    self.remove_all_of(agent, &mut touched);
                    self.effects.push(Effect::AgentEnded { agent, reason: EndReason::Expired });
                }
                Due::Lease { who: Leased::Owner(owner), .. } => {
                    let ends = self.owner(owner).and_then(|owner| owner.ends);
                    let overdue = ends.is_some_and(|ends| ends <= now);
                    let reason = if overdue { OwnerEnd::Overdue } else { OwnerEnd::Expired };
                    self.remove_owner(now, owner, reason, &mut touched);
                }
                Due::Hold { what: Held::Claim(token), .. } => self.expire_claim(now, token, &mut touched),
                Due::Hold { what: Held::Lock(request), .. } => {
                    // The lock may have gone with its agent a moment ago.
                    if let Some(at) = self.held.iter().position(|lock| lock.request.id == request) {
                        let lock = self.held.remove(at);
                        let agent = lock.request.agent;
                        touch(&mut touched, &lock.request.name);
                        let loss = LockLoss { name: lock.request.name, reason: LossReason::Expired };
                        self.effects.push(Effect::Lost { agent, request, loss: Box::new(loss) });
                    }
                }
            }
        }
        if self.recovery.as_ref().is_some_and(|recovery| recovery.until <= now) {
            self.end_recovery();
        }
        self.settle(now, settled);
        self.process_all(now, &touched);
        self.sweep(now, usize::MAX);
    }

    pub(in crate::oracle) fn next_due(&self) -> Option<Instant> {
        let recovery = self.recovery.as_ref().map(|recovery| recovery.until);
        let at_once = (self.unsettled || !self.turns.is_empty()).then(Instant::default);
        self.deadlines().into_iter().map(|(at, _)| at).chain(recovery).chain(at_once).min()
    }

    pub(super) fn join(&mut self, new: NewAgent<'_>, fresh: Option<AgentId>) -> Result<Outcome, Unnamed> {
        if self.agents.len() >= self.limits.agents as usize {
            return Ok(Outcome::Refused(Refusal::TooManyAgents { limit: self.limits.agents }));
        }
        let id = fresh.ok_or(Unnamed)?;
        let born = self.birth();
        let lease_ends = new.lease_ms.map(|ms| self.came.plus_millis(ms));
        let client_id = new.client_id.to_owned();
        self.agents.push(Agent { id, born, client_id, lease_ms: new.lease_ms, lease_ends });
        Ok(Outcome::Joined(id))
    }

    pub(super) fn renew(&mut self, agent: AgentId) -> bool {
        let came = self.came;
        let Some(agent) = self.agents.iter_mut().find(|other| other.id == agent) else { return false };
        // No lease is ever cut short.
        agent.lease_ends = agent.lease_ends.max(agent.lease_ms.map(|ms| came.plus_millis(ms)));
        true
    }

    fn deadlines(&self) -> Vec<(Instant, Due)> {
        let leases = self.agents.iter().filter_map(|agent| {
            agent.lease_ends.map(|at| (at, Due::Lease { born: agent.born, who: Leased::Agent(agent.id) }))
        });
        let holds = self.held.iter().filter_map(|lock| {
            let due = Due::Hold { born: lock.request.born, what: Held::Lock(lock.request.id) };
            lock.expires.map(|at| (at, due))
        });
        let owners = self
            .owners
            .iter()
            .map(|owner| (owner.expires, Due::Lease { born: owner.born, who: Leased::Owner(owner.id) }));
        let claims = self
            .claims
            .values()
            .map(|claim| (claim.expires, Due::Hold { born: claim.born, what: Held::Claim(claim.token) }));
        leases.chain(holds).chain(owners).chain(claims).collect()
    }
}
