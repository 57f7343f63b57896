//! The cost of a write in a commit.

use lockhouse_core::{Change, ClaimEnd, LockEnd, NameBuf, VoidLocks};
use lockhouse_store::{CommitBatch, Write};

const KIB: usize = 1024;

/// The cost of a change: 1 for each name or row, and 1 for each KiB that clients have written.
pub(crate) fn of_change(change: &Change) -> usize {
    let names = change.names();
    let text = match change {
        Change::OwnerOpened(it) => it.label.len() + length(it.metadata.as_deref()),
        Change::Locked(it) => length(it.metadata.as_deref()),
        Change::Claimed(it) => it.claimant.len() + length(it.metadata.as_deref()),
        Change::Assigned(it) => it.claimant.len(),
        Change::LocksVoided { which, .. } => return 1 + of_void(which) / KIB,
        Change::Unlocked { reason: LockEnd::Broken(by), .. }
        | Change::Unclaimed { reason: ClaimEnd::Broken(by), .. } => {
            by.operator.len() + length(by.reason.as_deref())
        }
        Change::OwnerEnded { .. }
        | Change::TokensReserved { .. }
        | Change::Unlocked { .. }
        | Change::LocksSwept { .. }
        | Change::Unclaimed { .. }
        | Change::Unassigned { .. } => 0,
    };
    names.len().max(1) + (names.iter().map(bytes).sum::<usize>() + text) / KIB
}

/// The cost of the writes of a batch.
pub(crate) fn of_batch(batch: &CommitBatch) -> usize {
    batch.writes.iter().map(of_write).sum()
}

fn of_write(write: &Write) -> usize {
    match write {
        Write::Change { change, .. } => of_change(change),
        Write::MarksReplaced { marks } => marks.len().max(1),
        Write::StoppedHolding { held: Some(held) } => 1 + held.locks() * HELD_LOCK / KIB,
        Write::StoppedHolding { held: None }
        | Write::BucketDropped { .. }
        | Write::NeedsRecovery { .. }
        | Write::LongestLease { .. }
        | Write::RecoveryCompleted
        | Write::StoppedClean
        | Write::MarkErased
        | Write::Refused { .. } => 1,
    }
}

/// A listed lock in bytes: two hashes, a token and a mode.
const HELD_LOCK: usize = 64;

fn of_void(which: &VoidLocks) -> usize {
    match which {
        VoidLocks::OfEnded(_) => 0,
        VoidLocks::AllBut { spared, .. } => spared.iter().map(bytes).sum(),
        VoidLocks::These(locks) => locks.iter().map(|(name, _)| bytes(name)).sum(),
    }
}

fn bytes(name: &NameBuf) -> usize {
    name.as_name().as_wtf8().len()
}

fn length(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}
