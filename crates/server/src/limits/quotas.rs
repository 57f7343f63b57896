//! Counts of a bounded resource, by user.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts the taken units by their takers. Cheap to clone.
#[derive(Debug)]
pub(crate) struct Quotas<K: Eq + Hash>(Arc<Mutex<Counts<K>>>);

#[derive(Debug)]
struct Counts<K> {
    all: usize,
    /// Only users with at least one.
    of: HashMap<K, usize>,
}

/// The multiple of the free rest that each user may have (a dynamic threshold, as switches share their
/// buffers by).
const OF_WHAT_IS_FREE: usize = 3;

/// A taken unit; dropped, it is free again.
#[derive(Debug)]
pub(crate) struct Permit<K: Eq + Hash> {
    quotas: Quotas<K>,
    key: K,
}

/// The reason why no unit is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All are taken.
    All,
    /// The user has as many as one user may have.
    Each,
}

impl<K: Eq + Hash> Clone for Quotas<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Eq + Hash> Default for Quotas<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Counts { all: 0, of: HashMap::new() })))
    }
}

impl<K: Clone + Eq + Hash> Quotas<K> {
    /// One more for `key`, if there are fewer than `all`, and `key` has fewer than `each`.
    ///
    /// A user never has more than [`OF_WHAT_IS_FREE`] times what is left free, so that a new user finds units
    /// beside users that take all they can: one alone has three quarters at most, a second one three quarters
    /// of the rest.
    pub(crate) fn take(&self, key: K, all: usize, each: usize) -> Result<Permit<K>, Full> {
        let mut counts = self.0.lock();
        if counts.all >= all {
            return Err(Full::All);
        }
        let own = counts.of.get(&key).copied().unwrap_or_default();
        if own >= each || own >= OF_WHAT_IS_FREE * (all - counts.all) {
            return Err(Full::Each);
        }
        counts.all += 1;
        counts.of.insert(key.clone(), own + 1);
        drop(counts);
        Ok(Permit { quotas: self.clone(), key })
    }

    /// The number of taken units.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().all
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut counts = self.quotas.0.lock();
        counts.all -= 1;
        if let Some(own) = counts.of.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                counts.of.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as `key` can have, at most.
    fn take_all(quotas: &Quotas<u8>, key: u8, all: usize, each: usize) -> Vec<Permit<u8>> {
        std::iter::from_fn(|| quotas.take(key, all, each).ok()).collect()
    }

    #[test]
    fn each_has_at_most_so_many_and_what_is_dropped_is_free_again() {
        let quotas = Quotas::default();
        let mut taken = take_all(&quotas, 1, 100, 10);
        assert_eq!(taken.len(), 10);
        assert_eq!(quotas.take(1, 100, 10).map(drop), Err(Full::Each));
        taken.pop();
        assert!(quotas.take(1, 100, 10).is_ok());
        drop(taken);
        assert_eq!((quotas.len(), quotas.0.lock().of.len()), (0, 0));
    }

    #[test]
    fn a_newcomer_gets_a_permit_beside_tenants_that_take_all_they_can() {
        let quotas = Quotas::default();
        let hogs: Vec<_> = (0..3).map(|key| take_all(&quotas, key, 1600, 1600)).collect();
        let had: Vec<_> = hogs.iter().map(Vec::len).collect();
        assert_eq!(had, [1200, 300, 75]);
        assert_eq!(take_all(&quotas, 9, 1600, 1600).len(), 19);
    }

    #[test]
    fn there_are_never_more_than_all() {
        let quotas = Quotas::default();
        let all: Vec<_> = (0..40).flat_map(|key| take_all(&quotas, key, 16, 1)).collect();
        assert_eq!(all.len(), 16);
        assert_eq!(quotas.take(99, 16, 1).map(drop), Err(Full::All));
    }
}
