//! The numbers that the client gave, and the identities of the bucket behind them.

use std::collections::{BTreeSet, HashMap, HashSet};

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
    /// Those of the requests that are not to wait, and still do: for the store, or for the end of a recovery.
    undecided: BTreeSet<u64>,
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
            self.undecided.remove(&request);
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

    /// As [`add_request`](Self::add_request), of a request that is not to wait, and has to for now.
    pub(super) fn add_undecided(&mut self, number: u64, agent: u64, id: RequestId) {
        self.add_request(number, agent, id);
        if self.requests.contains_key(&number) {
            self.undecided.insert(number);
        }
    }

    /// The request is granted.
    pub(super) fn note_grant(&mut self, number: u64) {
        self.undecided.remove(&number);
    }

    /// The request has ended, or the lock is not held any more.
    pub(super) fn remove_request(&mut self, number: u64) {
        let Some(request) = self.requests.remove(&number) else { return };
        self.ids.remove(&request.id);
        self.undecided.remove(&number);
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

    /// How many requests that are not to wait do so.
    pub(super) fn undecided_count(&self) -> usize {
        self.undecided.len()
    }

    /// Removes the first request that is not to wait and does so.
    pub(super) fn remove_undecided(&mut self) -> Option<(u64, RequestId)> {
        let number = self.undecided.pop_first()?;
        let request = self.requests.get(&number)?.id;
        self.remove_request(number);
        Some((number, request))
    }

    pub(super) fn agent_count(&self) -> usize {
        self.agents.len()
    }

    pub(super) fn request_count(&self) -> usize {
        self.requests.len()
    }
}
