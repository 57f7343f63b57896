//! What goes into a store: batches of writes, and what becomes of them.

use std::fmt;
use std::sync::Arc;

use lockhouse_core::Change;

use crate::StoreUnavailable;

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
}

/// A random number that a process draws anew for each slot that it takes, so that two that come upon the same
/// epoch, such as before and after a backup was brought back, are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriterId(pub u64);

/// Which bucket: two are the same exactly if both parts are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// To whom the bucket belongs. Tenants share nothing but the machine.
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

/// What one writer has for one slot, to be kept whole or not at all.
///
/// Each write has a sequence number: 1 is the first of an epoch, and no number is left out, within a batch or
/// between them. A batch without any writes is fine: its outcome tells whether its epoch still stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitBatch {
    /// The slot.
    pub slot: Slot,
    /// The epoch that [`take_slot`](crate::Store::take_slot) gave.
    pub epoch: u64,
    /// Who took the slot.
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

/// One thing to keep. Whatever names a bucket that the slot does not have makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Durable state changed.
    Change {
        /// In which bucket.
        scope: Arc<Scope>,
        /// How. Instants are milliseconds of wall time since 1970.
        change: Change,
    },
    /// A bucket was forgotten. What is still kept of it goes, except its history; above the mark to which its
    /// tokens were reserved any new bucket of its tenant must begin.
    BucketDropped {
        /// Which.
        scope: Arc<Scope>,
    },
    /// A web lock is about to be told to somebody far away for the first time in this bucket and this epoch;
    /// the bucket must recover if the process dies. Also for a lock that was reclaimed. Erases the mark of a
    /// clean stop.
    NeedsRecovery {
        /// Which.
        scope: Arc<Scope>,
    },
    /// A lease of this length is about to be given, the longest of this epoch so far.
    LongestLease {
        /// Its length.
        ms: u64,
    },
    /// The recovery that began with this epoch is over: tickets and leases of earlier epochs, and what was
    /// told in them, count no more.
    RecoveryCompleted,
    /// The process stops, and no web lock is held by anybody far away: nothing needs to recover, and every
    /// ticket is void. Always the last write of its epoch: later ones are [`CommitOutcome::Fenced`].
    StoppedClean,
    /// The mark of a clean stop is no longer true.
    MarkErased,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is kept.
    Committed,
    /// It is not kept and never will be: the slot has a newer epoch, or stopped clean. Tell nobody what
    /// waited for it, and stop writing to the slot.
    Fenced,
    /// It is kept or it is not, or it will be. Send the same batch again until it is `Committed` or `Fenced`.
    Unknown,
    /// It is not kept, and nothing of it ever will be unless it is sent again, which may help later.
    Refused(StoreUnavailable),
}
