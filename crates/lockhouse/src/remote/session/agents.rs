//! The agents of a connection: how they join a session, and join again if they were refused.

use std::collections::BTreeSet;

use lockhouse_wire::{self as wire, ClientCall};

use super::state::State;
use crate::error::{Quota, RequestError};
use crate::loss::Loss;

/// An agent that has not ended.
#[derive(Debug)]
pub(crate) struct AgentEntry {
    client_id: String,
    /// Its number in the present session, which is another one once a join was refused.
    pub(crate) number: u64,
    /// Whether the server was asked to let it join, and has not refused that.
    is_joined: bool,
    pub(crate) requests: BTreeSet<u64>,
}

impl State {
    pub(crate) fn join(&mut self, client_id: &str) -> Result<u64, Quota> {
        if client_id.len() > wire::CLIENT_ID_BYTES {
            return Err(Quota {
                field: "client_id".to_owned(),
                value: format!("{} bytes", client_id.len()),
                rule: format!("at most {} bytes are allowed", wire::CLIENT_ID_BYTES),
            });
        }
        let limit = self.agent_limit();
        if self.agents.len() as u64 >= limit {
            return Err(Quota {
                field: "connection".to_owned(),
                value: format!("{limit} agents"),
                rule: "it cannot have one more".to_owned(),
            });
        }
        self.last_agent += 1;
        let agent = self.last_agent;
        if !self.is_closed() {
            let entry = AgentEntry {
                client_id: client_id.to_owned(),
                number: agent,
                is_joined: true,
                requests: BTreeSet::new(),
            };
            self.send(ClientCall::Join { agent, client_id: entry.client_id.clone().into() });
            self.agents.insert(agent, entry);
        }
        Ok(agent)
    }

    pub(crate) fn leave(&mut self, agent: u64) {
        if let Some(entry) = self.agents.get(&agent) {
            if entry.is_joined {
                self.send(ClientCall::Leave { agent: entry.number });
            }
            self.end_agent(agent, &Loss::Terminated);
            self.close_if_unused();
        }
    }

    pub(crate) fn has_agent(&self, agent: u64) -> bool {
        self.agents.contains_key(&agent)
    }

    /// Has an agent join again whose join was refused: what kept it out may be gone. Returns its number in
    /// the session.
    pub(crate) fn join_again_if_refused(&mut self, agent: u64) -> u64 {
        // Numbers grow over the session.
        let next = self.last_agent + 1;
        let Some(entry) = self.agents.get_mut(&agent) else { return agent };
        if entry.is_joined {
            return entry.number;
        }
        (entry.number, entry.is_joined) = (next, true);
        let client_id = entry.client_id.clone().into();
        self.last_agent = next;
        self.send(ClientCall::Join { agent: next, client_id });
        next
    }

    /// Why the agent of the request could not join, if the server has refused a join. The next request has
    /// the agent join again.
    pub(crate) fn refused_join_of(&mut self, id: u64) -> Option<RequestError> {
        let refusal = self.refused_join.clone()?;
        let request = self.key(id).and_then(|key| self.entries.get(&key))?;
        let agent = self.agents.get_mut(&request.agent)?;
        // An earlier request may have had it join again meanwhile.
        if agent.number == request.ask.agent {
            agent.is_joined = false;
        }
        Some(refusal)
    }

    /// A fresh session has begun: all agents join it.
    pub(crate) fn join_anew(&mut self) {
        let Some(session) = &mut self.session else { return };
        for (agent, entry) in &mut self.agents {
            (entry.number, entry.is_joined) = (*agent, true);
            let client_id = entry.client_id.clone().into();
            session.outbox.push(ClientCall::Join { agent: *agent, client_id });
        }
    }
}
