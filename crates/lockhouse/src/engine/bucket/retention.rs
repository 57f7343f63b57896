//! The reasons why a bucket without users lives.
//!
//! A house forgets a bucket with its last handle, save a bucket that has owners, claims or assignments, or
//! that recovers from a crash: the house retains it.
//!
//! ```text
//!   a command, a tick, a commit
//!     │ [mutex of the bucket] is it needed, but not retained, or the reverse?
//!     ▼
//!   Housekeeping ─▶ Host::keep_house
//!     │ [mutex of the retained buckets, then of the bucket]
//!     ▼
//!   settle: retain it or let it go
//! ```
//!
//! The house asks the bucket anew before it acts, as another thread may have changed the need meanwhile.

/// The work that the house has to do for a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Housekeeping {
    /// The recovery of the bucket has ended: one less to wait for. Its retention is to be settled, too.
    EndRecovery,
    /// The need for the bucket has come or gone.
    SettleRetention,
}

/// The state of a bucket's retention.
#[derive(Debug)]
pub(super) struct Retention {
    /// How many owners, claims and assignments there are.
    facts: usize,
    /// Whether a recovery has ended of which the house does not know yet.
    has_recovered: bool,
    /// Whether the house retains the bucket, as far as it has settled that.
    is_retained: bool,
}

impl Retention {
    pub(super) fn of(facts: usize) -> Self {
        Self { facts, has_recovered: false, is_retained: false }
    }

    pub(super) fn add_fact(&mut self) {
        self.facts += 1;
    }

    pub(super) fn remove_fact(&mut self) {
        debug_assert!(self.facts > 0, "an owner, claim or assignment ended that had not begun");
        self.facts -= 1;
    }

    pub(super) fn has_facts(&self) -> bool {
        self.facts > 0
    }

    pub(super) fn recovery_ended(&mut self) {
        debug_assert!(!self.has_recovered, "a bucket recovers once");
        self.has_recovered = true;
    }

    #[inline]
    pub(super) fn take_housekeeping(&mut self, is_needed: bool) -> Option<Housekeeping> {
        if std::mem::take(&mut self.has_recovered) {
            return Some(Housekeeping::EndRecovery);
        }
        (is_needed != self.is_retained).then_some(Housekeeping::SettleRetention)
    }

    pub(super) fn settle(&mut self, is_needed: bool) {
        self.is_retained = is_needed;
    }
}
