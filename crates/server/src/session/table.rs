//! The numbers that the client gave, and the identities of the bucket behind them.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use lockhouse::core::{AgentId, RequestId};

type Map<K, V> = HashMap<K, V, RandomState>;

/// Agents and requests of one session, both ways.
#[derive(Debug, Default)]
pub(super) struct AgentTable {
    agents: Map<u64, AgentEntry>,
    numbers: Map<AgentId, u64>,
    requests: Map<u64, RequestEntry>,
    ids: Map<RequestId, u64>,
}

#[derive(Debug)]
struct AgentEntry {
    id: AgentId,
    requests: HashSet<u64, RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct RequestEntry {
    id: RequestId,
    agent: u64,
}

impl AgentTable {
    pub(super) fn add_agent(&mut self, number: u64, id: AgentId) {
        self.agents.insert(number, AgentEntry { id, requests: HashSet::default() });
        self.numbers.insert(id, number);
    }

    /// The agent has ended, its requests and locks with it.
    pub(super) fn remove_agent(&mut self, number: u64) {
        let Some(agent) = self.agents.remove(&number) else { return };
        self.numbers.remove(&agent.id);
        for request in agent.requests {
            if let Some(request) = self.requests.remove(&request) {
                self.ids.remove(&request.id);
            }
        }
    }

    pub(super) fn add_request(&mut self, number: u64, agent: u64, id: RequestId) {
        if let Some(owner) = self.agents.get_mut(&agent) {
            owner.requests.insert(number);
            self.requests.insert(number, RequestEntry { id, agent });
            self.ids.insert(id, number);
        }
    }

    /// The request has ended, or the lock is not held any more.
    pub(super) fn remove_request(&mut self, number: u64) {
        let Some(request) = self.requests.remove(&number) else { return };
        self.ids.remove(&request.id);
        if let Some(agent) = self.agents.get_mut(&request.agent) {
            agent.requests.remove(&number);
        }
    }

    pub(super) fn agent(&self, number: u64) -> Option<AgentId> {
        self.agents.get(&number).map(|agent| agent.id)
    }

    pub(super) fn agent_number(&self, id: AgentId) -> Option<u64> {
        self.numbers.get(&id).copied()
    }

    pub(super) fn request(&self, number: u64) -> Option<RequestId> {
        self.requests.get(&number).map(|request| request.id)
    }

    /// The agent that made the request; 0 if there is none.
    pub(super) fn agent_of(&self, number: u64) -> u64 {
        self.requests.get(&number).map_or(0, |request| request.agent)
    }

    pub(super) fn request_number(&self, id: RequestId) -> Option<u64> {
        self.ids.get(&id).copied()
    }

    pub(super) fn agent_count(&self) -> usize {
        self.agents.len()
    }

    pub(super) fn request_count(&self) -> usize {
        self.requests.len()
    }
}
