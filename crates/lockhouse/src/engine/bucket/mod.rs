//! A bucket: one lock manager behind one mutex, and the way from its effects to their receivers.
//!
//! ```text
//!   command ─▶ [mutex: stamp now, handle, route effects] ─▶ outcome
//!                                     │
//!                    the outbox ◀─────┤ what rests on something uncommitted waits there
//!                                     │
//!               a future's waker ◀────┴────▶ a port's inbox          wakers run after the mutex is free
//! ```

mod changes;
pub(crate) mod deferred;
mod delivery;
mod durability;
pub(crate) mod execute;
pub(crate) mod results;
pub(crate) mod retention;
pub(crate) mod shared;
mod state;
pub(crate) mod steps;
mod wakeups;

use std::sync::Arc;
use std::time::SystemTime;

use lockhouse_core::{Command, Instant, Outcome};
use tokio::sync::watch;

use crate::engine::bucket::shared::Shared;
use crate::engine::commit::slot_lease::SlotLease;
use crate::engine::commit::store_state::StoreState;
use crate::engine::key::BucketKey;
use crate::engine::memory::MemoryReservation;
use crate::error::StoreError;
use crate::snapshot::Snapshot;

/// One name space of locks. <https://w3c.github.io/web-locks/#lock-manager>. Cheap to clone; every clone is
/// the same bucket.
#[derive(Clone, Debug)]
pub struct Bucket(pub(crate) Arc<Shared>);

impl Bucket {
    /// The key that separates this bucket from others.
    pub fn key(&self) -> &BucketKey {
        self.0.key()
    }

    /// Now, by the clock that leases run by.
    pub fn now(&self) -> Instant {
        self.0.environment.clock.now()
    }

    /// When that was, or will be, by the calendar.
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.0.environment.clock.wall(at)
    }

    /// All that is held and pending, returned once it is durable.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.snapshot_in(None).await
    }

    /// As [`snapshot`](Self::snapshot). The answer holds that memory as long as it waits for the store, even
    /// if its caller has gone.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn look(&self, memory: Arc<MemoryReservation>) -> Result<Snapshot, StoreError> {
        self.snapshot_in(Some(memory)).await
    }

    async fn snapshot_in(&self, memory: Option<Arc<MemoryReservation>>) -> Result<Snapshot, StoreError> {
        match self.0.execute_volatile(Command::Snapshot, memory).await? {
            Outcome::Snapshot(snapshot) => Ok(Snapshot::from_core(snapshot, &|at| self.wall(at))),
            outcome => unreachable!("a snapshot cannot be answered with {outcome:?}"),
        }
    }

    /// How many requests and locks there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many bytes of memory a snapshot takes at most, about.
    pub fn bytes_of_snapshot(&self) -> usize {
        self.0.bytes_of_snapshot()
    }

    /// Whether nothing is held and nothing pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any web lock is held.
    pub fn has_held(&self) -> bool {
        self.0.with(|state| state.manager().held_web_locks() > 0)
    }

    /// Ends all grants: pending requests go on waiting, the rest is refused.
    pub fn close(&self) {
        self.0.handle(Command::Close);
    }

    /// Whether the node may speak whose house the bucket is in; none if it is no house of a fleet.
    pub fn slot_lease(&self) -> Option<&Arc<SlotLease>> {
        self.0.environment.lease.as_ref()
    }

    /// Waits until the house of the bucket has ended, as [`House::ended`](crate::House::ended) does.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&self) -> StoreState {
        match &self.0.environment.store {
            Some(store) => store.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Marked as changed after every command that may have changed something; snapshots and renewals are
    /// none.
    pub fn changed(&self) -> watch::Receiver<()> {
        self.0.changed()
    }
}
