//! The buckets that are in use, and the marks of those that were.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::engine::bucket::shared::Shared;
use crate::engine::key::BucketKey;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) buckets: HashMap<BucketKey, Weak<Shared>>,
    /// How many there are of each tenant that has any.
    counts: HashMap<String, usize>,
    pub(crate) marks: Marks,
}

impl Registry {
    /// No bucket is in use.
    pub(crate) fn with(marks: Marks) -> Self {
        Self { marks, ..Self::default() }
    }

    pub(crate) fn insert(&mut self, key: BucketKey, bucket: &Arc<Shared>) {
        *self.counts.entry(key.tenant().to_owned()).or_default() += 1;
        let displaced = self.buckets.insert(key, Arc::downgrade(bucket));
        debug_assert!(displaced.is_none(), "a bucket is counted once");
    }

    pub(crate) fn remove(&mut self, key: &BucketKey) {
        let known = self.buckets.remove(key);
        debug_assert!(known.is_some(), "only a bucket in use is removed");
        debug_assert!(self.count(key.tenant()) > 0, "a bucket in use is counted");
        if let Some(count) = self.counts.get_mut(key.tenant()) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(key.tenant());
            }
        }
    }

    /// How many that tenant has.
    pub(crate) fn count(&self, tenant: &str) -> usize {
        self.counts.get(tenant).copied().unwrap_or_default()
    }
}

/// The highest token of the buckets that were dropped, by partition. A bucket that comes anew in a partition
/// starts above it, and learns nothing of other partitions.
///
/// A tenant that has more partitions than are remembered apart learns of itself, and of no other one.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    of: HashMap<String, OfTenant>,
    /// How many partitions are remembered, of all tenants.
    partitions: usize,
    /// The highest token of all others.
    floor: u64,
}

#[derive(Debug, Default)]
struct OfTenant {
    of: HashMap<String, u64>,
    /// The highest token of all its other partitions.
    floor: u64,
}

/// So many tenants, and so many partitions of all of them, are remembered apart.
const MARKED: usize = 100_000;

/// So many partitions of each tenant.
const MARKED_OF_TENANT: usize = 1_000;

impl Marks {
    /// A bucket that is not known begins above `floor`.
    pub(crate) fn above_floor(floor: u64) -> Self {
        Self { floor, ..Self::default() }
    }

    pub(crate) fn above(&self, key: &BucketKey) -> u64 {
        self.of.get(key.tenant()).map_or(0, |tenant| tenant.above(&key.partition)).max(self.floor)
    }

    pub(crate) fn raise(&mut self, key: &BucketKey, mark: u64) {
        debug_assert!(self.partitions <= MARKED && self.of.len() <= MARKED, "what is remembered has a bound");
        if mark <= self.floor {
            // The mark would add nothing.
        } else if let Some(tenant) = self.of.get_mut(key.tenant()) {
            self.partitions += usize::from(tenant.raise(&key.partition, mark, self.partitions < MARKED));
        } else if self.of.len() < MARKED {
            let mut tenant = OfTenant::default();
            self.partitions += usize::from(tenant.raise(&key.partition, mark, self.partitions < MARKED));
            self.of.insert(key.tenant().to_owned(), tenant);
        } else {
            self.floor = mark;
        }
    }
}

impl OfTenant {
    fn above(&self, partition: &str) -> u64 {
        self.of.get(partition).copied().unwrap_or_default().max(self.floor)
    }

    /// Whether it remembers a partition more for that.
    fn raise(&mut self, partition: &str, mark: u64, has_space: bool) -> bool {
        if let Some(known) = self.of.get_mut(partition) {
            *known = mark.max(*known);
        } else if mark <= self.floor {
            // The mark would add nothing.
        } else if has_space && self.of.len() < MARKED_OF_TENANT {
            self.of.insert(partition.to_owned(), mark);
            return true;
        } else {
            self.floor = mark;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: usize, partition: usize) -> BucketKey {
        let partition = format!("\u{1f}tenant-{tenant}\u{1f}\u{1f}\u{1f}{partition}");
        BucketKey { bucket: "b".to_owned(), partition }
    }

    #[test]
    fn a_tenant_with_many_partitions_raises_only_its_own_marks() {
        let mut marks = Marks::above_floor(7);
        marks.raise(&key(1, 0), 10);
        for partition in 0..3 * MARKED_OF_TENANT {
            marks.raise(&key(2, partition), 100 + partition as u64);
        }
        assert_eq!(marks.partitions, 1 + MARKED_OF_TENANT);
        for partition in 0..3 * MARKED_OF_TENANT {
            assert!(marks.above(&key(2, partition)) >= 100 + partition as u64);
        }
        assert_eq!([marks.above(&key(1, 0)), marks.above(&key(1, 1)), marks.above(&key(3, 0))], [10, 7, 7]);
    }

    #[test]
    fn marks_never_fall_and_have_a_bound() {
        let mut marks = Marks::default();
        for tenant in 0..MARKED / MARKED_OF_TENANT + 2 {
            for partition in 0..MARKED_OF_TENANT {
                marks.raise(&key(tenant, partition), 1 + partition as u64);
            }
        }
        assert_eq!(marks.partitions, MARKED);
        let last = MARKED / MARKED_OF_TENANT + 1;
        assert!((0..MARKED_OF_TENANT).all(|partition| marks.above(&key(last, partition)) > partition as u64));
        marks.raise(&key(last, 0), 1);
        assert_eq!(marks.above(&key(last, 0)), MARKED_OF_TENANT as u64);
        assert_eq!(marks.above(&key(last + 1, 0)), 0);
        for tenant in 0..=MARKED {
            marks.raise(&key(tenant, 0), 1);
        }
        assert_eq!((marks.of.len(), marks.above(&key(MARKED, 0))), (MARKED, 1));
    }
}
