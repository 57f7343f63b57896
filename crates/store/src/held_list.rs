//! The web locks that remote clients held when a process stopped. Names and sessions are in it as keyed
//! hashes alone: what web locks are called is never written.

use std::sync::Arc;

use lockhouse_core::{FencingToken, Mode};

use crate::Scope;

/// The web locks that were held when the writer of a slot stopped, by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldList {
    pub(crate) buckets: Vec<(Arc<Scope>, Vec<HeldWebLock>)>,
}

/// A web lock in such a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldWebLock {
    /// A keyed hash of its name.
    pub name: [u8; 16],
    /// A keyed hash of the secret of its holder's session.
    pub session: [u8; 16],
    /// How it is held.
    pub mode: Mode,
    /// The token of its grant.
    pub token: FencingToken,
}

impl HeldList {
    /// The most locks of a list.
    pub const MOST_LOCKS: usize = 10_000;

    /// The most bytes of a list in a store.
    pub const MOST_BYTES: usize = 1 << 20;

    /// The locks of these buckets. None if they are too many: a list is whole, or there is none.
    pub fn new(buckets: Vec<(Arc<Scope>, Vec<HeldWebLock>)>) -> Option<Self> {
        let locks: usize = buckets.iter().map(|(_, locks)| locks.len()).sum();
        let bytes: usize = buckets.iter().map(|(scope, locks)| bytes_of(scope, locks.len())).sum();
        let fits = locks <= Self::MOST_LOCKS && bytes <= Self::MOST_BYTES;
        fits.then_some(Self { buckets })
    }

    /// The buckets with their locks.
    pub fn into_buckets(self) -> Vec<(Arc<Scope>, Vec<HeldWebLock>)> {
        self.buckets
    }

    /// How many locks there are.
    pub fn locks(&self) -> usize {
        self.buckets.iter().map(|(_, locks)| locks.len()).sum()
    }
}

/// The bytes of a bucket with so many locks, in a store.
pub(crate) fn bytes_of(scope: &Scope, locks: usize) -> usize {
    3 * size_of::<u32>() + scope.tenant.len() + scope.bucket.len() + locks * LOCK_BYTES
}

/// The bytes of a lock: two hashes, the mode, the token.
const LOCK_BYTES: usize = 16 + 16 + 1 + 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_bound_in_locks_and_in_bytes() {
        let (scope, token) = (Arc::new(Scope::new("t", "b")), FencingToken::new(7));
        let lock = HeldWebLock { name: [1; 16], session: [2; 16], mode: Mode::Shared, token };
        let most = vec![lock; HeldList::MOST_LOCKS];
        assert_eq!(HeldList::new(vec![(scope.clone(), most.clone())]).unwrap().locks(), 10_000);
        assert_eq!(HeldList::new(vec![(scope.clone(), most), (scope, vec![lock])]), None);
        let long = Arc::new(Scope::new("t", "b".repeat(1000)));
        let buckets = |count| vec![(long.clone(), vec![lock]); count];
        assert!(HeldList::new(buckets(900)).is_some());
        assert_eq!(HeldList::new(buckets(1100)), None);
    }
}
