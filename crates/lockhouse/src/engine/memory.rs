//! How much memory each tenant has, and how much it may have.
//!
//! Memory is reserved in chunks, so that a reservation that grows or shrinks a little need not ask the
//! budget.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::sync::{AtomicUsize, Mutex};

/// How many bytes each tenant has, wherever it has them, and how many it may have. Cheap to clone.
///
/// ```
/// use lockhouse::MemoryBudget;
///
/// let budget = MemoryBudget::new(100_000);
/// let (mut one, mut another) = (budget.of("acme"), budget.of("acme"));
/// assert!(one.reserve(60_000).is_ok());
/// assert!(another.reserve(60_000).is_err(), "the same tenant has 120,000 bytes then");
/// assert!(budget.of("globex").reserve(60_000).is_ok());
/// drop(one);
/// assert!(another.reserve(60_000).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    each: AtomicUsize,
    /// By tenant: its bytes. A tenant without any is not there.
    of: Mutex<HashMap<Arc<str>, usize>>,
}

/// The bytes of a tenant in one place. Dropping it gives them back.
#[derive(Debug)]
pub struct MemoryReservation {
    budget: MemoryBudget,
    tenant: Arc<str>,
    bytes: usize,
}

/// The tenant has all the memory that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetExceeded {
    /// How many bytes it may have.
    pub limit: usize,
}

/// How many bytes are taken or given back at a time.
const CHUNK: usize = 4096;

impl MemoryBudget {
    /// A budget of so many bytes for each tenant.
    pub fn new(each: usize) -> Self {
        Self(Arc::new(Inner { each: each.into(), of: Mutex::default() }))
    }

    /// From now on so many bytes for each tenant. A tenant that has more keeps it.
    pub fn set(&self, each: usize) {
        self.0.each.store(each, Ordering::Relaxed);
    }

    /// A reservation of that tenant, empty at first.
    pub fn of(&self, tenant: &str) -> MemoryReservation {
        MemoryReservation { budget: self.clone(), tenant: tenant.into(), bytes: 0 }
    }

    /// How many bytes all tenants have together, and the one of them that has most. O(tenants).
    pub fn taken_by_all(&self) -> (usize, usize) {
        let of = self.0.of.lock();
        of.values().fold((0, 0), |(all, most), bytes| (all + bytes, most.max(*bytes)))
    }

    /// How many bytes each tenant may have.
    pub fn each(&self) -> usize {
        self.0.each.load(Ordering::Relaxed)
    }

    /// How many bytes that tenant has in all its reservations, in whole chunks.
    pub fn taken(&self, tenant: &str) -> usize {
        self.0.of.lock().get(tenant).copied().unwrap_or_default()
    }
}

impl MemoryReservation {
    /// Grows to so many bytes, if they are more than it has.
    ///
    /// # Errors
    ///
    /// [`BudgetExceeded`] if the tenant would have more than it may have; its memory stays as it was.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        if bytes <= self.bytes { Ok(()) } else { self.grow(bytes, 4) }
    }

    /// As [`reserve`](Self::reserve), but the tenant may have no more than so many quarters of its memory
    /// then: what is kept for convenience leaves the rest to others.
    pub(crate) fn reserve_of_quarters(
        &mut self,
        bytes: usize,
        quarters: usize,
    ) -> Result<(), BudgetExceeded> {
        if bytes <= self.bytes { Ok(()) } else { self.grow(bytes, quarters) }
    }

    /// Whether the tenant has all that it may have, or more.
    pub fn is_full(&self) -> bool {
        self.budget.taken(&self.tenant) >= self.budget.0.each.load(Ordering::Relaxed)
    }

    /// Takes so many bytes now, whether or not the budget allows them.
    #[inline]
    pub fn settle(&mut self, bytes: usize) {
        if bytes > self.bytes || self.bytes - bytes > 2 * CHUNK {
            self.set(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize, quarters: usize) -> Result<(), BudgetExceeded> {
        let each = self.budget.0.each.load(Ordering::Relaxed);
        let limit = each - each / 4 * (4 - quarters);
        let bytes = bytes.next_multiple_of(CHUNK);
        let mut of = self.budget.0.of.lock();
        let taken = of.entry(self.tenant.clone()).or_default();
        if *taken + (bytes - self.bytes) > limit {
            if *taken == 0 {
                of.remove(&self.tenant);
            }
            return Err(BudgetExceeded { limit });
        }
        *taken += bytes - self.bytes;
        self.bytes = bytes;
        Ok(())
    }

    #[cold]
    fn set(&mut self, bytes: usize) {
        let bytes = bytes.next_multiple_of(CHUNK);
        let mut of = self.budget.0.of.lock();
        let taken = of.entry(self.tenant.clone()).or_default();
        *taken = *taken + bytes - self.bytes;
        if *taken == 0 {
            of.remove(&self.tenant);
        }
        self.bytes = bytes;
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_what_all_its_places_have_and_nothing_once_they_are_gone() {
        let budget = MemoryBudget::new(10 * CHUNK);
        let mut places: Vec<MemoryReservation> = (0..5).map(|_| budget.of("a")).collect();
        places.iter_mut().for_each(|place| place.reserve(CHUNK + 1).expect("there is room"));
        assert_eq!(budget.taken("a"), 10 * CHUNK);
        assert_eq!(places[0].reserve(2 * CHUNK + 1), Err(BudgetExceeded { limit: 10 * CHUNK }));
        assert_eq!(places[0].reserve(2 * CHUNK), Ok(()), "it has that already");
        let mut other = budget.of("b");
        assert_eq!(other.reserve(10 * CHUNK + 1), Err(BudgetExceeded { limit: 10 * CHUNK }));
        assert_eq!(other.reserve(10 * CHUNK), Ok(()));
        drop(places);
        drop(other);
        assert!(budget.0.of.lock().is_empty());
    }

    #[test]
    fn memory_in_use_counts_though_it_exceeds_the_budget_and_goes_with_its_end() {
        let budget = MemoryBudget::new(CHUNK);
        let mut place = budget.of("a");
        place.settle(5 * CHUNK);
        assert_eq!(budget.taken("a"), 5 * CHUNK);
        assert_eq!(place.reserve(5 * CHUNK), Ok(()));
        assert!(budget.of("a").reserve(1).is_err());
        place.settle(0);
        assert!(budget.0.of.lock().is_empty());
    }

    #[test]
    fn a_small_change_of_use_leaves_the_budget_alone() {
        let budget = MemoryBudget::new(usize::MAX);
        let mut place = budget.of("a");
        place.settle(3 * CHUNK);
        place.settle(CHUNK);
        assert_eq!(budget.taken("a"), 3 * CHUNK);
        place.settle(CHUNK - 1);
        assert_eq!(budget.taken("a"), CHUNK);
    }

    #[test]
    fn less_for_each_takes_nothing_away() {
        let budget = MemoryBudget::new(4 * CHUNK);
        let mut place = budget.of("a");
        place.reserve(4 * CHUNK).expect("there is room");
        budget.set(2 * CHUNK);
        assert_eq!(place.reserve(3 * CHUNK), Ok(()));
        assert_eq!(place.reserve(4 * CHUNK + 1), Err(BudgetExceeded { limit: 2 * CHUNK }));
        place.settle(0);
        assert_eq!(place.reserve(2 * CHUNK), Ok(()));
    }
}
