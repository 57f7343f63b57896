//! The joins and losses that wait for the store, so that no later message to the same agent
//! overtakes them.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use lockhouse_core::{AgentId, RequestId};

/// The joins and losses that wait for the store, each with the group of changes that it waits for.
#[derive(Debug, Default)]
pub(in crate::engine::bucket) struct Withheld {
    joins: HashMap<AgentId, u64, RandomState>,
    /// Of requests whose loss waits, or whose grant does after they have ended.
    ends: HashMap<RequestId, u64, RandomState>,
}

impl Withheld {
    /// The memory of one of them.
    pub(in crate::engine::bucket) const BYTES: usize = size_of::<(RequestId, u64)>();

    /// That the agent has joined waits for the group.
    pub(in crate::engine::bucket) fn join(&mut self, agent: AgentId, group: u64) {
        self.joins.insert(agent, group);
    }

    /// That the request has ended, or was granted before it ended, waits for the group.
    pub(in crate::engine::bucket) fn end(&mut self, request: RequestId, group: u64) {
        self.ends.insert(request, group);
    }

    /// The group that the join of the agent waits for.
    pub(in crate::engine::bucket) fn join_of(&self, agent: AgentId) -> Option<u64> {
        self.joins.get(&agent).copied()
    }

    /// The group that the end of the request waits for.
    pub(in crate::engine::bucket) fn end_of(&self, request: RequestId) -> Option<u64> {
        self.ends.get(&request).copied()
    }

    /// Those that wait for nothing any more were announced.
    pub(in crate::engine::bucket) fn forget(&mut self, is_durable: impl Fn(u64) -> bool) {
        self.joins.retain(|_, group| !is_durable(*group));
        self.ends.retain(|_, group| !is_durable(*group));
        const KEPT: usize = 1024;
        if self.ends.is_empty() && self.ends.capacity() > KEPT {
            self.ends = HashMap::default();
        }
    }
}
