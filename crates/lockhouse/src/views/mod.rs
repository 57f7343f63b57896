//! Looks at a bucket for those that watch it: each is returned once what it shows is durable, and takes the
//! bucket's mutex for a moment at a time.

mod assignments;
mod overview;
mod owners;
mod queues;

use lockhouse_core::{Gauges, Name};

pub use self::assignments::{AssignmentPart, AssignmentQuestion};
pub use self::overview::{Contended, Overview};
pub use self::owners::{OwnerEntry, OwnerPart};
use crate::engine::bucket::Bucket;
use crate::error::StoreError;
use crate::snapshot::Snapshot;

/// The most slots of a table that are looked at in one hold of the mutex.
const PART: u32 = 16_384;

impl Bucket {
    /// How much there is, and how many assignments stand. O(1). What is counted need not be durable yet.
    pub fn gauges(&self) -> (Gauges, usize) {
        self.0.with(|state| (state.manager().gauges(), state.manager().assignments().len()))
    }

    /// The part of a [`snapshot`](Self::snapshot) that is about one name. O(holders and requests of the
    /// name).
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn snapshot_of(&self, name: Name<'_>) -> Result<Snapshot, StoreError> {
        let now = self.0.environment.clock.stamp();
        // If a list says that it is held, the snapshot shows that.
        self.0.with(|state| state.name_comes_up(now, name));
        let snapshot = self.0.execute_read(|manager| manager.snapshot_of(name)).await?;
        Ok(Snapshot::from_core(snapshot, &|at| self.wall(at)))
    }

    /// How many bytes of memory [`snapshot_of`](Self::snapshot_of) takes at most, about, and how many entries
    /// it has. O(that).
    pub fn size_of_snapshot_of(&self, name: Name<'_>) -> (usize, usize) {
        self.0.with(|state| {
            let manager = state.manager();
            (manager.bytes_of_snapshot_of(name), manager.count_of(name))
        })
    }
}
