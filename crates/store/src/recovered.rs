//! The output of a store when a slot is taken.

use std::fmt;
use std::sync::Arc;

use lockhouse_core::Change;

use crate::{HeldList, Scope, TokenMark};

/// The properties of a slot for its new writer. [`Opened::recovers`] says which buckets recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The new epoch: at least 1, and higher than every one before.
    pub epoch: u64,
    /// The key of the store, from which secrets and tickets are derived.
    pub key: SecretKey,
    /// The last stop was proven clean, or the slot has never been taken.
    pub clean: bool,
    /// The state was restored from a backup, and no recovery has been completed since. The announcements
    /// after the backup are unknown, so every bucket must recover, also a bucket without stored state, for at
    /// least the longest lease that could have been given.
    pub restored: bool,
    /// The longest lease given since the last clean stop or completed recovery, in milliseconds; 0 if there
    /// was none.
    pub longest_lease_ms: u64,
    /// A ticket of an epoch before this one is void.
    pub tickets_since: u64,
    /// No bucket may begin or go on with a token up to and including this one, whatever its tenant. At a take
    /// by a node of a fleet it is at least what the clock of the store says
    /// ([`token_floor`](crate::token_floor)): the clocks of nodes say nothing of it.
    pub token_floor: u64,
    /// The web locks that were held at the last stop, if it left a list of them and no other take came since:
    /// exactly these may be reclaimed, and no bucket recovers.
    pub held: Option<HeldList>,
}

impl Opened {
    /// Whether this bucket must recover, with `needs_recovery` as its [`RecoveredRow::Bucket`] says, and
    /// false if the bucket has no such row.
    pub fn recovers(&self, needs_recovery: bool) -> bool {
        self.restored || (needs_recovery && !self.clean && self.held.is_none())
    }
}

/// A piece of the stored state of a slot.
///
/// The rows come in this order: the marks of groups, those of tenants; then bucket by bucket first the bucket
/// itself and then its changes: [`TokensReserved`](Change::TokensReserved) if there ever was one, owners,
/// locks, claims, assignments, each kind from the oldest number to the newest. Between locks and claims come
/// the [`LocksVoided`](Change::LocksVoided) that are not swept, by owners, those of each in their order. No
/// other changes ever come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredRow {
    /// A mark of dropped buckets. The one of all tenants is [`Opened::token_floor`].
    Mark(TokenMark),
    /// A bucket.
    Bucket {
        /// The identity of the bucket.
        scope: Arc<Scope>,
        /// Web locks of the bucket were announced to remote clients since the last clean stop or completed
        /// recovery.
        needs_recovery: bool,
    },
    /// A change in the bucket of the last `Bucket` row.
    Change {
        /// The bucket.
        scope: Arc<Scope>,
        /// The change. Instants are milliseconds of wall time since 1970.
        change: Change,
    },
}

/// 32 random bytes, drawn once when a store is made. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey([u8; 32]);

impl SecretKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A key of random bytes.
    ///
    /// # Errors
    ///
    /// The error of the system's source of randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}
