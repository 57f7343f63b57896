//! Buckets on their way back from the store.

use std::sync::Arc;

use foldhash::fast::RandomState;
use lockhouse_core::{Change, Instant, Limits, LockManager, ReplayError};
use lockhouse_store::{RecoveredRow, Scope};

use crate::engine::absence::Absence;
use crate::engine::bucket::deferred::by_the_lease_clock;
use crate::engine::clock::Clock;
use crate::engine::house::registry::Marks;

/// A bucket on its way back.
pub(super) struct Restored {
    pub(super) scope: Arc<Scope>,
    pub(super) needs_recovery: bool,
    pub(super) manager: LockManager<RandomState>,
    /// The locks that the last stop listed.
    pub(super) absence: Option<Box<Absence>>,
    /// How many owners, claims and assignments it has.
    pub(super) facts: usize,
}

/// The stored records of a bucket contradict themselves.
pub(super) struct Damage {
    pub(super) bucket: String,
    pub(super) why: ReplayError,
}

/// All buckets on their way back.
pub(super) struct Restoring<'a> {
    clock: &'a Clock,
    pub(super) now: Instant,
    limits: Limits,
    pub(super) buckets: Vec<Restored>,
    /// The marks of buckets that were dropped, and the number of rows that they had in the store.
    pub(super) marks: Marks,
    pub(super) mark_rows: usize,
    pub(super) damage: Option<Damage>,
}

impl<'a> Restoring<'a> {
    /// With the marks that count before any is known.
    pub(super) fn new(clock: &'a Clock, limits: Limits, marks: Marks) -> Self {
        let buckets = Vec::new();
        Self { clock, now: clock.now(), limits, buckets, marks, mark_rows: 0, damage: None }
    }

    pub(super) fn take(&mut self, row: RecoveredRow) {
        match row {
            RecoveredRow::Mark(mark) => {
                self.marks.add(mark);
                self.mark_rows += 1;
            }
            RecoveredRow::Bucket { scope, needs_recovery } => {
                let manager = LockManager::with_limits(RandomState::default(), self.limits);
                self.buckets.push(Restored { scope, needs_recovery, manager, absence: None, facts: 0 });
            }
            RecoveredRow::Change { change, .. } => self.change(change),
        }
    }

    fn change(&mut self, change: Change) {
        let Some(bucket) = self.buckets.last_mut() else { return };
        let is_fact = matches!(change, Change::OwnerOpened(_) | Change::Claimed(_) | Change::Assigned(_));
        bucket.facts += usize::from(is_fact);
        let change = by_the_lease_clock(change, self.clock);
        if let Err(why) = bucket.manager.replay(self.now, &change) {
            let bucket = bucket.scope.bucket.to_string();
            self.damage.get_or_insert(Damage { bucket, why });
        }
    }
}
