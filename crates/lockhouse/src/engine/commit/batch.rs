//! The writes of one commit: a fair share of each tenant, partition and bucket.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lockhouse_store::Write;

use crate::engine::bucket::shared::Shared;

/// The least share that each tenant, partition and bucket may have of a commit in its turn, however many
/// there are: the largest command fits.
pub(crate) const LEAST_SHARE: usize = 64;

/// What one commit takes, and of whom.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) writes: Vec<Write>,
    /// Their cost.
    pub(super) cost: usize,
    /// How many commands made them.
    pub(super) commands: usize,
    pub(super) buckets: Vec<Arc<Shared>>,
    /// So many refusals are all that it has.
    pub(super) refusals_alone: u64,
}

/// What a bucket gave to a commit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TakenChanges {
    /// The number of commands that made the changes.
    pub(crate) commands: usize,
    /// The cost of the changes.
    pub(crate) cost: usize,
    /// The bucket has further changes.
    pub(crate) has_more: bool,
}

/// Buckets of one partition that have something to send.
pub(super) type Buckets = VecDeque<Arc<Shared>>;

/// The buckets that have something to send, by their tenants and there by their partitions: each tenant has
/// its turn, however many of them it has.
#[derive(Debug)]
struct Turns(VecDeque<VecDeque<Buckets>>);

impl Turns {
    /// In the order in which each tenant, and there each partition, has its first bucket there.
    fn of(buckets: Buckets) -> Self {
        let (mut tenants, mut partitions) = (HashMap::new(), HashMap::new());
        let mut turns: VecDeque<VecDeque<Buckets>> = VecDeque::new();
        for bucket in buckets {
            let key = bucket.key();
            let known = partitions.get(&key.partition).copied();
            let (tenant, partition) = known.unwrap_or_else(|| {
                let next = turns.len();
                let tenant = *tenants.entry(key.tenant().to_owned()).or_insert(next);
                if tenant == next {
                    turns.push_back(VecDeque::new());
                }
                turns[tenant].push_back(Buckets::new());
                let place = (tenant, turns[tenant].len() - 1);
                partitions.insert(key.partition.clone(), place);
                place
            });
            turns[tenant][partition].push_back(bucket);
        }
        Self(turns)
    }

    fn left(self) -> Buckets {
        self.0.into_iter().flatten().flatten().collect()
    }
}

/// The share that each of so many may have in its turn.
fn share(of: usize, count: usize) -> usize {
    (of / count.max(1)).max(LEAST_SHARE)
}

impl Batch {
    /// Takes a share of each tenant in turn, until the commit is full at that cost, and gives back the
    /// buckets that have more.
    pub(super) fn take_in_turns(&mut self, buckets: Buckets, most: usize) -> Buckets {
        let mut turns = Turns::of(buckets);
        let share = share(most, turns.0.len());
        while self.cost < most
            && let Some(mut tenant) = turns.0.pop_front()
        {
            self.take_of_tenant(&mut tenant, share.min(most - self.cost));
            if !tenant.is_empty() {
                turns.0.push_back(tenant);
            }
        }
        turns.left()
    }

    /// Takes writes of a tenant at that cost, about: a share of each of its partitions in turn.
    fn take_of_tenant(&mut self, partitions: &mut VecDeque<Buckets>, most: usize) {
        let (share, end) = (share(most, partitions.len()), self.cost + most);
        while self.cost < end
            && let Some(mut buckets) = partitions.pop_front()
        {
            self.take_of_partition(&mut buckets, share.min(end - self.cost));
            if !buckets.is_empty() {
                partitions.push_back(buckets);
            }
        }
    }

    /// Takes writes of a partition at that cost, about: a share of each of its buckets in turn.
    pub(super) fn take_of_partition(&mut self, buckets: &mut Buckets, most: usize) {
        let (share, end) = (share(most, buckets.len()), self.cost + most);
        while self.cost < end
            && let Some(bucket) = buckets.pop_front()
        {
            let most = share.min(end - self.cost);
            let taken = bucket.take_changes(most, &mut self.writes);
            self.commands += taken.commands;
            self.cost += taken.cost;
            if taken.has_more {
                buckets.push_back(bucket.clone());
            }
            // More than once, if it had more than one turn: only the first counts.
            self.buckets.push(bucket);
        }
    }
}
