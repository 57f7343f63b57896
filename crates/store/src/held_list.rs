//! The web locks that remote clients held when a process stopped. Names and sessions are in it as keyed
//! hashes alone: what web locks are called is never written.

use std::sync::Arc;

use lockhouse_core::{FencingToken, Mode};

use crate::{Scope, values};

/// The web locks that were held when the writer of a slot stopped, by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldList {
    buckets: Vec<(Arc<Scope>, Vec<HeldWebLock>)>,
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

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (scope, locks) in &self.buckets {
            for text in [&scope.tenant, &scope.bucket] {
                bytes.extend((text.len() as u32).to_be_bytes());
                bytes.extend(text.as_bytes());
            }
            bytes.extend((locks.len() as u32).to_be_bytes());
            for HeldWebLock { name, session, mode, token } in locks {
                bytes.extend(name);
                bytes.extend(session);
                bytes.push(u8::from(*mode == Mode::Shared));
                bytes.extend(token.get().to_be_bytes());
            }
        }
        bytes
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader(bytes);
        let mut buckets = Vec::new();
        while !reader.0.is_empty() {
            let scope = Scope::new(reader.text()?, reader.text()?);
            let mut locks = Vec::new();
            for _ in 0..reader.length()? {
                locks.push(reader.lock()?);
            }
            buckets.push((Arc::new(scope), locks));
        }
        Self::new(buckets).ok_or_else(|| "the list of held web locks is too long".to_owned())
    }
}

/// The bytes of a bucket with so many locks.
fn bytes_of(scope: &Scope, locks: usize) -> usize {
    3 * size_of::<u32>() + scope.tenant.len() + scope.bucket.len() + locks * LOCK_BYTES
}

/// The bytes of a lock: two hashes, the mode, the token.
const LOCK_BYTES: usize = 16 + 16 + 1 + 8;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
struct Reader<'a>(&'a [u8]);

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or("the list of held web locks breaks off".to_owned())?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("so many were taken"))
    }

    fn length(&mut self) -> Result<usize, String> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    fn text(&mut self) -> Result<Box<str>, String> {
        let length = self.length()?;
        let text = std::str::from_utf8(self.take(length)?);
        text.map(Box::from).map_err(|_| "the list of held web locks has a bucket that is no UTF-8".to_owned())
    }

    fn lock(&mut self) -> Result<HeldWebLock, String> {
        let (name, session) = (self.array()?, self.array()?);
        let mode = match self.array()? {
            [0] => Mode::Exclusive,
            [1] => Mode::Shared,
            [other] => return Err(format!("{other} is no mode")),
        };
        let token = values::token(u64::from_be_bytes(self.array()?))?;
        Ok(HeldWebLock { name, session, mode, token })
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    fn lock(number: u8) -> HeldWebLock {
        let mode = if number.is_multiple_of(2) { Mode::Shared } else { Mode::Exclusive };
        let token = FencingToken::new(u64::from(number) + 1);
        HeldWebLock { name: [number; 16], session: [number ^ 0xFF; 16], mode, token }
    }

    fn bucket(tenant: &str, locks: u8) -> (Arc<Scope>, Vec<HeldWebLock>) {
        (Arc::new(Scope::new(tenant, "büro")), (0..locks).map(lock).collect())
    }

    #[test]
    fn a_list_comes_back_and_has_the_bytes_that_are_counted() {
        for buckets in [vec![], vec![bucket("", 0)], vec![bucket("t", 3), bucket("u", 200)]] {
            let counted: usize = buckets.iter().map(|(scope, locks)| bytes_of(scope, locks.len())).sum();
            let list = HeldList::new(buckets).unwrap();
            let bytes = list.to_bytes();
            assert_eq!((bytes.len(), HeldList::from_bytes(&bytes)), (counted, Ok(list)));
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let bytes = HeldList::new(vec![bucket("t", 2)]).unwrap().to_bytes();
        for length in 1..bytes.len() {
            HeldList::from_bytes(&bytes[..length]).unwrap_err();
        }
        let mode = bytes.len() - 9;
        let mut wrong = bytes.clone();
        wrong[mode] = 2;
        HeldList::from_bytes(&wrong).unwrap_err();
        let mut wrong = bytes;
        wrong[mode + 1..].fill(0);
        HeldList::from_bytes(&wrong).unwrap_err();
        HeldList::from_bytes(&[0xFF; 40]).unwrap_err();
    }

    #[test]
    fn a_list_has_a_bound_in_locks_and_in_bytes() {
        let scope = Arc::new(Scope::new("t", "b"));
        let most = vec![lock(1); HeldList::MOST_LOCKS];
        assert_eq!(HeldList::new(vec![(scope.clone(), most.clone())]).unwrap().locks(), 10_000);
        assert_eq!(HeldList::new(vec![(scope.clone(), most), (scope, vec![lock(1)])]), None);
        let long = Arc::new(Scope::new("t", "b".repeat(1000)));
        let buckets = |count| vec![(long.clone(), vec![lock(1)]); count];
        assert!(HeldList::new(buckets(900)).is_some());
        assert_eq!(HeldList::new(buckets(1100)), None);
    }
}
