//! The joins and losses that wait for the store, so that no later message to the same agent
//! overtakes them.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::fast::RandomState;
use lockhouse_core::{AgentId, RequestId};

/// The joins and losses that wait for the store, each with the group of changes that it waits for.
#[derive(Debug, Default)]
pub(in crate::engine::bucket) struct Withheld {
    joins: ByGroup<AgentId>,
    /// Of requests whose loss waits, or whose grant does after they have ended.
    ends: ByGroup<RequestId>,
}

/// The group that each waits for, and the other way round: groups become durable in their order, so that
/// those that wait for nothing any more are found without a look at the others.
#[derive(Debug)]
struct ByGroup<K> {
    groups: HashMap<K, u64, RandomState>,
    /// One that waits for a later group by now is still listed at the earlier one.
    waiting: BTreeMap<u64, Vec<K>>,
}

impl<K> Default for ByGroup<K> {
    fn default() -> Self {
        Self { groups: HashMap::default(), waiting: BTreeMap::new() }
    }
}

impl Withheld {
    /// The memory of one of them.
    pub(in crate::engine::bucket) const BYTES: usize = size_of::<(RequestId, u64)>() + size_of::<RequestId>();

    /// That the agent has joined waits for the group.
    pub(in crate::engine::bucket) fn join(&mut self, agent: AgentId, group: u64) {
        self.joins.wait(agent, group);
    }

    /// That the request has ended, or was granted before it ended, waits for the group.
    pub(in crate::engine::bucket) fn end(&mut self, request: RequestId, group: u64) {
        self.ends.wait(request, group);
    }

    /// The group that the join of the agent waits for.
    pub(in crate::engine::bucket) fn join_of(&self, agent: AgentId) -> Option<u64> {
        self.joins.groups.get(&agent).copied()
    }

    /// The group that the end of the request waits for.
    pub(in crate::engine::bucket) fn end_of(&self, request: RequestId) -> Option<u64> {
        self.ends.groups.get(&request).copied()
    }

    /// Those that wait for nothing any more were announced.
    pub(in crate::engine::bucket) fn forget(&mut self, is_durable: impl Fn(u64) -> bool) {
        self.joins.forget(&is_durable);
        self.ends.forget(&is_durable);
    }
}

impl<K: Copy + Eq + Hash> ByGroup<K> {
    fn wait(&mut self, key: K, group: u64) {
        if self.groups.insert(key, group) != Some(group) {
            self.waiting.entry(group).or_default().push(key);
        }
    }

    fn forget(&mut self, is_durable: impl Fn(u64) -> bool) {
        while let Some(first) = self.waiting.first_entry().filter(|first| is_durable(*first.key())) {
            let (group, keys) = first.remove_entry();
            for key in keys {
                if self.groups.get(&key) == Some(&group) {
                    self.groups.remove(&key);
                }
            }
        }
        const KEPT: usize = 1024;
        if self.groups.is_empty() && self.groups.capacity() > KEPT {
            self.groups = HashMap::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn those_that_wait_for_nothing_any_more_are_found_without_a_look_at_the_others() {
        const COUNT: u64 = 1000;
        let (mut by_group, looks) = (ByGroup::default(), Cell::new(0));
        (0..COUNT).for_each(|key| by_group.wait(key, key / 2));
        by_group.wait(1, 7);
        by_group.wait(1, 7);
        for durable in 0..COUNT / 2 {
            by_group.forget(|group| {
                looks.set(looks.get() + 1);
                group <= durable
            });
            let is_left = |key: u64| if key == 1 { durable < 7 } else { key / 2 > durable };
            assert!((0..COUNT).all(|key| by_group.groups.contains_key(&key) == is_left(key)));
        }
        assert_eq!(looks.get(), COUNT - 1, "two for each but the last");
        assert!(by_group.waiting.is_empty());
    }
}
