//! What has to be kept: every change of durable state, as a fact, in the order in which it happened.
//!
//! The same facts, told in their order to [`LockManager::replay`](crate::LockManager::replay), bring the
//! state back. Locks of agents are never among them: an agent and what it holds are volatile.

use crate::{FencingToken, Instant, Mode, NameBuf, OwnerId, SecretSeed};

/// A change of what a bucket must not forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Numbers up to and including this one may be given as fencing tokens. Comes well before they are
    /// needed; no token above may be told before this is kept.
    TokensReserved {
        /// The mark.
        up_to: u64,
    },
    /// An owner began.
    OwnerOpened(OwnerRecord),
    /// An owner ended, and with it every lock that it held.
    OwnerEnded {
        /// The owner.
        owner: OwnerId,
        /// The names of its locks, which are free now.
        names: Vec<NameBuf>,
        /// Why.
        reason: OwnerEnd,
        /// When.
        at: Instant,
    },
    /// An owner holds a name; stands in for what it held of that name before.
    Locked(LockRecord),
    /// An owner holds a name no longer.
    Unlocked {
        /// The name.
        name: NameBuf,
        /// Whose lock it was.
        owner: OwnerId,
        /// The token of that lock.
        token: FencingToken,
        /// Why.
        reason: LockEnd,
        /// When.
        at: Instant,
    },
    /// A name is claimed.
    Claimed(ClaimRecord),
    /// A claim ended without having been made final.
    Unclaimed {
        /// The name.
        name: NameBuf,
        /// The fencing token of that claim.
        token: FencingToken,
        /// Why.
        reason: ClaimEnd,
        /// When.
        at: Instant,
    },
    /// A claim was made final, and has ended with that.
    Assigned(AssignmentRecord),
    /// An assignment was taken back.
    Unassigned {
        /// The name.
        name: NameBuf,
        /// The fencing token of the claim that had become final.
        token: FencingToken,
        /// When.
        at: Instant,
    },
}

impl Change {
    /// The names that it speaks of.
    pub fn names(&self) -> &[NameBuf] {
        use std::slice::from_ref;
        match self {
            Self::TokensReserved { .. } | Self::OwnerOpened(_) => &[],
            Self::OwnerEnded { names, .. } => names,
            Self::Locked(LockRecord { name, .. })
            | Self::Unlocked { name, .. }
            | Self::Claimed(ClaimRecord { name, .. })
            | Self::Unclaimed { name, .. }
            | Self::Assigned(AssignmentRecord { name, .. })
            | Self::Unassigned { name, .. } => from_ref(name),
        }
    }
}

/// A session or business transaction. <https://martinfowler.com/eaaCatalog/pessimisticOfflineLock.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRecord {
    /// Its public number.
    pub owner: OwnerId,
    /// What it is called, as shown to those who are refused.
    pub label: Box<str>,
    /// What it said of itself.
    pub metadata: Option<Box<str>>,
    /// How long it lives without any activity, in milliseconds.
    pub ttl_ms: u64,
    /// The instant at which it began.
    pub since: Instant,
    /// The instant at which it ends at the latest, whatever it does.
    pub ends: Option<Instant>,
    /// What its secret is derived from.
    pub seed: SecretSeed,
}

/// An offline lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRecord {
    /// The resource name.
    pub name: NameBuf,
    /// Who holds it.
    pub owner: OwnerId,
    /// How.
    pub mode: Mode,
    /// The token of the grant.
    pub token: FencingToken,
    /// The instant of the grant.
    pub since: Instant,
    /// What the owner said of it.
    pub metadata: Option<Box<str>>,
}

/// A claim: a reservation that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRecord {
    /// The resource name.
    pub name: NameBuf,
    /// Who claims it.
    pub claimant: Box<str>,
    /// The fencing token of the claim, which is its number, too.
    pub token: FencingToken,
    /// How long it lasts unless it is renewed, in milliseconds.
    pub ttl_ms: u64,
    /// The instant at which it began.
    pub since: Instant,
    /// What its secret is derived from.
    pub seed: SecretSeed,
    /// What the claimant said of it.
    pub metadata: Option<Box<str>>,
}

/// A claim made final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentRecord {
    /// The resource name.
    pub name: NameBuf,
    /// To whom it belongs.
    pub claimant: Box<str>,
    /// The fencing token of the claim.
    pub token: FencingToken,
    /// The instant at which it became final.
    pub since: Instant,
    /// The seed of the claim.
    pub seed: SecretSeed,
}

/// Why an owner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnerEnd {
    /// It was ended.
    Ended,
    /// Nothing was heard of it for its TTL.
    Expired,
    /// Its longest life was over.
    Overdue,
}

/// Why an offline lock ended before its owner did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockEnd {
    /// Its owner released it.
    Released,
    /// The step of the business transaction that took it failed.
    Undone,
    /// A web lock request stole the name.
    Stolen,
}

/// Why a claim ended without having been made final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimEnd {
    /// It was released.
    Released,
    /// Its TTL was over.
    Expired,
    /// A web lock request stole the name.
    Stolen,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_every_name_that_it_speaks_of() {
        let names = ["a", "b"].map(|name| NameBuf::new(name).unwrap());
        let owner = OwnerId::new(1);
        let at = Instant::from_millis(0);
        let ended = Change::OwnerEnded { owner, names: names.to_vec(), reason: OwnerEnd::Ended, at };
        assert_eq!(ended.names(), names);
        let (name, token) = (names[0].clone(), FencingToken::new(1));
        let unlocked = Change::Unlocked { name, owner, token, reason: LockEnd::Released, at };
        assert_eq!(unlocked.names(), &names[..1]);
        assert_eq!(Change::TokensReserved { up_to: 1 }.names(), &[]);
    }
}
