//! The buckets that are in use, and the marks of those that were.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use lockhouse_store::{MarkOf, TokenMark, token_floor};

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

    /// A bucket that takes the place of another one counts in its place.
    pub(crate) fn insert(&mut self, key: BucketKey, bucket: &Arc<Shared>) {
        let count = self.counts.entry(key.tenant().to_owned()).or_default();
        let displaced = self.buckets.insert(key, Arc::downgrade(bucket));
        *count += usize::from(displaced.is_none());
    }

    /// Removes that very bucket; false if it is not in use, as when another one has taken its place.
    pub(crate) fn remove(&mut self, key: &BucketKey, bucket: &Shared) -> bool {
        let is_known = |known: &Weak<Shared>| ptr::eq(known.as_ptr(), bucket);
        if !self.buckets.get(key).is_some_and(is_known) {
            return false;
        }
        self.buckets.remove(key);
        debug_assert!(self.count(key.tenant()) > 0, "a bucket in use is counted");
        if let Some(count) = self.counts.get_mut(key.tenant()) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(key.tenant());
            }
        }
        true
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
    /// No bucket is known, and none gives a token that one may have given before `now`, even if nothing is
    /// left of it.
    pub(crate) fn at(now: SystemTime) -> Self {
        Self { floor: token_floor(now), ..Self::default() }
    }

    pub(crate) fn above(&self, key: &BucketKey) -> u64 {
        self.of.get(key.tenant()).map_or(0, |tenant| tenant.above(&key.partition)).max(self.floor)
    }

    /// The buckets of that key's partition begin above this mark from now on. Returns the mark that rises for
    /// that, if one does; the store keeps exactly those.
    pub(crate) fn raise(&mut self, key: &BucketKey, mark: u64) -> Option<TokenMark> {
        debug_assert!(self.partitions <= MARKED && self.of.len() <= MARKED, "what is remembered has a bound");
        if mark <= self.floor {
            return None;
        }
        let has_space = self.partitions < MARKED;
        let of = match self.tenant(key.tenant()) {
            Some(tenant) => match tenant.raise(&key.partition, mark, has_space)? {
                Raised::Partition { is_new } => {
                    self.partitions += usize::from(is_new);
                    MarkOf::Tenant(key.partition.as_str().into())
                }
                Raised::Floor => MarkOf::Group(key.tenant().into()),
            },
            None => {
                self.floor = mark;
                MarkOf::All
            }
        };
        Some(TokenMark { of, up_to: mark })
    }

    /// Takes a mark of the store.
    pub(crate) fn add(&mut self, mark: TokenMark) {
        let TokenMark { of, up_to } = mark;
        match of {
            MarkOf::Tenant(partition) => {
                let key = BucketKey { bucket: String::new(), partition: partition.into() };
                _ = self.raise(&key, up_to);
            }
            MarkOf::Group(tenant) => match self.tenant(&tenant) {
                Some(tenant) => tenant.floor = up_to.max(tenant.floor),
                None => self.floor = up_to.max(self.floor),
            },
            MarkOf::All => self.floor = up_to.max(self.floor),
        }
    }

    /// All that is remembered, as the store has it.
    pub(crate) fn all(&self) -> Vec<TokenMark> {
        let mut marks = vec![TokenMark { of: MarkOf::All, up_to: self.floor }];
        for (name, tenant) in &self.of {
            if tenant.floor > 0 {
                marks.push(TokenMark { of: MarkOf::Group(name.as_str().into()), up_to: tenant.floor });
            }
            let of_partition = |(partition, up_to): (&String, &u64)| TokenMark {
                of: MarkOf::Tenant(partition.as_str().into()),
                up_to: *up_to,
            };
            marks.extend(tenant.of.iter().map(of_partition));
        }
        marks
    }

    /// How many rows of the store that are.
    pub(crate) fn len(&self) -> usize {
        self.partitions + self.of.values().filter(|tenant| tenant.floor > 0).count()
    }

    /// The highest token of all partitions that are not remembered apart.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn highest(&self) -> u64 {
        let of_tenant = |tenant: &OfTenant| tenant.of.values().copied().fold(tenant.floor, u64::max);
        self.of.values().map(of_tenant).fold(self.floor, u64::max)
    }

    /// The marks of that tenant; none if it is not remembered apart.
    fn tenant(&mut self, name: &str) -> Option<&mut OfTenant> {
        if !self.of.contains_key(name) && self.of.len() < MARKED {
            self.of.insert(name.to_owned(), OfTenant::default());
        }
        self.of.get_mut(name)
    }
}

/// The mark of a tenant that has risen.
enum Raised {
    Partition { is_new: bool },
    Floor,
}

impl OfTenant {
    fn above(&self, partition: &str) -> u64 {
        self.of.get(partition).copied().unwrap_or_default().max(self.floor)
    }

    fn raise(&mut self, partition: &str, mark: u64, has_space: bool) -> Option<Raised> {
        if mark <= self.above(partition) {
            return None;
        }
        if let Some(known) = self.of.get_mut(partition) {
            *known = mark;
            return Some(Raised::Partition { is_new: false });
        }
        if has_space && self.of.len() < MARKED_OF_TENANT {
            self.of.insert(partition.to_owned(), mark);
            return Some(Raised::Partition { is_new: true });
        }
        self.floor = mark;
        Some(Raised::Floor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn key(tenant: usize, partition: usize) -> BucketKey {
        let partition = format!("\u{1f}tenant-{tenant}\u{1f}\u{1f}\u{1f}{partition}");
        BucketKey { bucket: "b".to_owned(), partition }
    }

    #[test]
    fn a_tenant_with_many_partitions_raises_only_its_own_marks() {
        let mut marks = Marks { floor: 7, ..Marks::default() };
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

    /// Marks beside what the store has of them.
    #[derive(Default)]
    struct Kept {
        marks: Marks,
        store: BTreeMap<MarkOf, u64>,
    }

    impl Kept {
        fn raise(&mut self, key: &BucketKey, mark: u64) {
            if let Some(TokenMark { of, up_to }) = self.marks.raise(key, mark) {
                let known = self.store.entry(of).or_default();
                *known = up_to.max(*known);
            }
        }

        /// What the store has, in the order in which it gives it.
        fn rows(&self) -> Vec<TokenMark> {
            let groups_first = |(of, up_to): (&MarkOf, &u64)| TokenMark { of: of.clone(), up_to: *up_to };
            let mut rows: Vec<_> = self.store.iter().map(groups_first).collect();
            rows.sort_by_key(|mark| matches!(mark.of, MarkOf::Tenant(_)));
            rows
        }
    }

    #[test]
    fn the_store_has_exactly_what_is_remembered_and_it_comes_back() {
        let mut kept = Kept::default();
        let mut random = random::Random::new(7);
        for _ in 0..100_000 {
            let tenant = random.below(3);
            let partition = random.below(if tenant == 0 { 10 } else { 3 * MARKED_OF_TENANT });
            kept.raise(&key(tenant, partition), random.below(1 << 30) as u64);
        }
        let sorted = |mut marks: Vec<TokenMark>| {
            marks.retain(|mark| mark.up_to > 0);
            marks.sort();
            marks
        };
        let rows = kept.rows();
        assert_eq!(sorted(kept.marks.all()), sorted(rows.clone()));
        assert_eq!((rows.len(), kept.marks.len()), (10 + 2 * (MARKED_OF_TENANT + 1), rows.len()));
        let mut again = Marks::default();
        rows.into_iter().for_each(|row| again.add(row));
        for (tenant, partition) in (0..4).flat_map(|tenant| (0..4000).map(move |nth| (tenant, nth))) {
            let key = key(tenant, partition);
            assert_eq!(again.above(&key), kept.marks.above(&key));
        }
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
