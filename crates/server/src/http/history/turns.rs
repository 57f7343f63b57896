//! Turns at the history, so that those who look at it leave the store to those who lock.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::bounds::HISTORY_AT_ONCE;

/// As many tenants are remembered before those are forgotten that wait for nothing.
const REMEMBERED: usize = 64;

/// Of each tenant one caller at a time, and of all a few.
#[derive(Debug)]
pub(crate) struct HistoryTurns {
    all: Semaphore,
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The right to look, until it is dropped.
#[expect(dead_code, reason = "kept for its end")]
pub(super) struct Turn<'a> {
    all: SemaphorePermit<'a>,
    tenant: OwnedSemaphorePermit,
}

impl Default for HistoryTurns {
    fn default() -> Self {
        Self { all: Semaphore::new(HISTORY_AT_ONCE), tenants: Mutex::default() }
    }
}

impl HistoryTurns {
    /// Waits for a turn of that tenant. Each tenant has one caller among those that wait for the store, so
    /// that none keeps the others from it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the place is given up.
    pub(super) async fn turn(&self, tenant: &str) -> Option<Turn<'_>> {
        let own = self.of(tenant);
        let tenant = own.acquire_owned().await.ok()?;
        Some(Turn { all: self.all.acquire().await.ok()?, tenant })
    }

    fn of(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock();
        if let Some(known) = tenants.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        if tenants.len() >= REMEMBERED {
            tenants.retain(|_, turns| turns.strong_count() > 0);
        }
        let new = Arc::new(Semaphore::new(1));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_tenant_with_many_callers_keeps_no_other_from_its_turn() {
        let turns = HistoryTurns::default();
        let first = turns.turn("a").await.unwrap();
        let mut crowd: Vec<_> = (0..100).map(|_| Box::pin(turns.turn("a"))).collect();
        assert!(crowd.iter_mut().all(|caller| caller.now_or_never().is_none()));
        let other = turns.turn("b").await.unwrap();
        let mut third = pin!(turns.turn("c"));
        assert!((&mut third).now_or_never().is_none(), "more than {HISTORY_AT_ONCE} look at once");
        drop(first);
        // The next of the crowd waits behind the third tenant.
        assert!(crowd.iter_mut().all(|caller| caller.now_or_never().is_none()));
        let third = third.await.unwrap();
        drop(other);
        let next: Vec<_> = crowd.iter_mut().filter_map(FutureExt::now_or_never).collect();
        assert_eq!(next.len(), 1);
        drop(third);
    }
}
