//! The input of a store: batches of writes, and their outcomes.

use std::fmt;
use std::sync::Arc;

use lockhouse_core::Change;
use sha2::{Digest, Sha256};

use crate::{Fatal, HeldList, RefusalRecord, StoreUnavailable};

/// A part of the buckets that one process owns at a time.
///
/// A store of one machine has only [`Slot::ONLY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of a store that has no other.
    pub const ONLY: Self = Self(0);

    /// The slot with this number.
    pub fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number itself.
    pub fn get(self) -> u16 {
        self.0
    }

    /// The slot of that bucket, of so many: SHA-256 over the lengths of its tenant and its name, 8 bytes each
    /// with the highest first, each followed by the text itself; the first 8 bytes of the hash, modulo the
    /// number of slots.
    pub fn of(scope: &Scope, slots: u16) -> Self {
        let mut hash = Sha256::new();
        for part in [&scope.tenant, &scope.bucket] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let hash = hash.finalize();
        let first = hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
        Self((first % u64::from(slots.max(1))) as u16)
    }
}

/// A random number that a process draws anew for each slot that it takes, so that two writers with the same
/// epoch, such as before and after the restore of a backup, can be distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriterId(pub u64);

/// The identity of a bucket: two buckets are the same exactly if both parts are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The tenant to whom the bucket belongs. Tenants share nothing but the machine.
    pub tenant: Box<str>,
    /// The name of the bucket.
    pub bucket: Box<str>,
}

impl Scope {
    /// The bucket of this name of that tenant.
    pub fn new(tenant: impl Into<Box<str>>, bucket: impl Into<Box<str>>) -> Self {
        Self { tenant: tenant.into(), bucket: bucket.into() }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.bucket)
    }
}

/// A mark of fencing tokens that outlives its buckets: no bucket to which it applies may begin, or go on
/// after a start, with a token up to and including this one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenMark {
    /// The buckets to which it applies.
    pub of: MarkOf,
    /// The token.
    pub up_to: u64,
}

/// The buckets to which a mark applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkOf {
    /// Those of one tenant.
    Tenant(Box<str>),
    /// Those of a group of tenants. Only the caller knows which tenants are in it.
    Group(Box<str>),
    /// Those of every tenant.
    All,
}

/// The writes of one writer to one slot, to be stored as a whole or not at all.
///
/// Each write has a sequence number: 1 is the first of an epoch, and no number is left out, within a batch or
/// between them. A batch without any writes is fine: its outcome shows whether its epoch still stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitBatch {
    /// The slot.
    pub slot: Slot,
    /// The epoch that [`take_slot`](crate::Store::take_slot) gave.
    pub epoch: u64,
    /// The writer that took the slot.
    pub writer: WriterId,
    /// The sequence number of the first write.
    pub first_seq: u64,
    /// The writes, in the order in which they happened.
    pub writes: Vec<Write>,
}

impl CommitBatch {
    /// The sequence number of the last write; `first_seq - 1` if there is none.
    pub fn last_seq(&self) -> u64 {
        (self.first_seq + self.writes.len() as u64).saturating_sub(1)
    }
}

/// One write. A write that names a bucket which the slot does not have creates the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Durable state changed.
    Change {
        /// The bucket of the change.
        scope: Arc<Scope>,
        /// The change. Instants are milliseconds of wall time since 1970.
        change: Change,
    },
    /// A bucket was forgotten. Its stored state is deleted, except its history. Only the given mark rises,
    /// not to which its tokens were reserved: the caller knows the last token that was given.
    BucketDropped {
        /// The bucket.
        scope: Arc<Scope>,
        /// The mark that rises instead; none if those that are stored are high enough.
        mark: Option<TokenMark>,
    },
    /// These are all the marks of tenants and groups from now on. The one of all tenants only ever rises.
    MarksReplaced {
        /// The marks. They must be as high for every bucket as those in whose place they come.
        marks: Vec<TokenMark>,
    },
    /// A web lock of this bucket is about to be announced to a remote client for the first time in this
    /// epoch; the bucket must recover if the process dies. A reclaimed lock counts, too. This write erases
    /// the mark of a clean stop.
    NeedsRecovery {
        /// The bucket.
        scope: Arc<Scope>,
    },
    /// A lease of this length is about to be given, the longest of this epoch so far.
    LongestLease {
        /// Its length.
        ms: u64,
    },
    /// The recovery that began with this epoch is over: tickets, leases and announcements of earlier epochs
    /// no longer count.
    RecoveryCompleted,
    /// The process stops, and no remote client holds a web lock: nothing needs to recover, and every ticket
    /// is void. Always the last write of its epoch: later ones are [`CommitOutcome::Fenced`].
    StoppedClean,
    /// The process stops while remote clients hold exactly these web locks, and no others may come back: the
    /// next epoch waits for these alone. Always the last write of its epoch, as `StoppedClean`.
    StoppedHolding {
        /// The locks. The next take uses the list up. None if it is not known who holds what: then the next
        /// epoch recovers as after a crash.
        held: Option<HeldList>,
    },
    /// The mark of a clean stop is no longer true.
    MarkErased,
    /// Something was refused: an entry of the history, and nothing else. It makes no bucket.
    Refused {
        /// The bucket.
        scope: Arc<Scope>,
        /// What was refused. Instants are milliseconds of wall time since 1970.
        refusal: Box<RefusalRecord>,
    },
}

/// The outcome of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The batch is durable.
    Committed,
    /// No write of the batch is stored from now on: the slot has a newer epoch, or has ended. If an earlier
    /// sending of the same batch was `Unknown`, it may be stored since then. Drop the notices that waited for
    /// the batch, and stop writing to the slot.
    Fenced,
    /// The batch is stored or not, or it will be. Send the same batch again until it is `Committed` or
    /// `Fenced`.
    Unknown,
    /// The batch is not stored, and no part of it ever will be unless it is sent again, which may help later.
    Refused(StoreUnavailable),
    /// The batch cannot be stored, as what is kept of its slot is damaged; other slots may go on. Drop the
    /// notices that waited for the batch, and stop writing to the slot until it is taken again. If an earlier
    /// sending of the same batch was `Unknown`, it may be stored.
    Damaged(Fatal),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in a database was put there by these numbers.
    #[test]
    fn the_slot_of_a_bucket_never_changes() {
        for (tenant, bucket, slots, number) in [
            ("", "", 256, 213),
            ("", "default", 256, 81),
            ("acme", "default", 256, 168),
            ("a", "bc", 256, 193),
            ("ab", "c", 256, 44),
            ("\u{1f}acme\u{1f}f", "kiosk ä", 256, 187),
            ("acme", "default", 4096, 424),
            ("acme", "default", 7, 0),
            ("acme", "default", 1, 0),
        ] {
            assert_eq!(Slot::of(&Scope::new(tenant, bucket), slots), Slot(number), "{tenant:?} {bucket:?}");
        }
    }

    #[test]
    fn buckets_are_spread_over_all_slots() {
        let mut counts = [0; 16];
        for n in 0..1600 {
            counts[usize::from(Slot::of(&Scope::new("t", format!("{n}")), 16).get())] += 1;
        }
        assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
    }
}
