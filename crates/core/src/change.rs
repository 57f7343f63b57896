//! Durable facts: every change of durable state, as a fact, in the order in which it happened.
//!
//! The same facts, passed in their order to [`LockManager::replay`](crate::LockManager::replay), restore the
//! state. Locks of agents are never among them: an agent and what it holds are volatile.

use crate::{FencingToken, Instant, Mode, NameBuf, OwnerId, SecretSeed};

/// A change of the durable state of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Numbers up to and including this one may be given as fencing tokens. This change comes well before the
    /// tokens are needed. No token above the mark may be announced before this change is durable.
    TokensReserved {
        /// The mark.
        up_to: u64,
    },
    /// An owner began.
    OwnerOpened(OwnerRecord),
    /// An owner ended, and with it every lock that it held. If its locks were [void](Self::LocksVoided) by
    /// then, this comes after the last of them has ended.
    OwnerEnded {
        /// The owner.
        owner: OwnerId,
        /// The names of its locks, which are free now; none of locks that were void.
        names: Vec<NameBuf>,
        /// Why.
        reason: OwnerEnd,
        /// When.
        at: Instant,
    },
    /// An owner holds a name. The lock replaces the owner's earlier lock of that name.
    Locked(LockRecord),
    /// An owner no longer holds a name.
    Unlocked {
        /// The name.
        name: NameBuf,
        /// The owner of that lock.
        owner: OwnerId,
        /// The token of that lock.
        token: FencingToken,
        /// Why.
        reason: LockEnd,
        /// When.
        at: Instant,
    },
    /// An owner has given up more locks than fit into one commit: from now on they are void. A void lock has
    /// no holder, but still keeps its name from others until it ends, with an `Unlocked` of its own. If the
    /// owner lives, [`LocksSwept`](Self::LocksSwept) comes after the last one, else `OwnerEnded`.
    LocksVoided {
        /// The owner.
        owner: OwnerId,
        /// Which of its locks.
        which: VoidLocks,
        /// When.
        at: Instant,
    },
    /// All void locks of an owner that lives have ended.
    LocksSwept {
        /// The owner.
        owner: OwnerId,
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
    /// The names that the change concerns. Void locks are not among them: each of them ends in a change of
    /// its own before its name is another's.
    pub fn names(&self) -> &[NameBuf] {
        use std::slice::from_ref;
        match self {
            Self::TokensReserved { .. }
            | Self::OwnerOpened(_)
            | Self::LocksVoided { .. }
            | Self::LocksSwept { .. } => &[],
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
    /// The label, shown to requesters that are refused.
    pub label: Box<str>,
    /// The metadata that the owner gave for itself.
    pub metadata: Option<Box<str>>,
    /// How long it lives without any activity, in milliseconds.
    pub ttl_ms: u64,
    /// The instant at which it began.
    pub since: Instant,
    /// The instant at which it ends at the latest, regardless of its activity.
    pub ends: Option<Instant>,
    /// The seed from which its secret is derived.
    pub seed: SecretSeed,
}

/// An offline lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRecord {
    /// The resource name.
    pub name: NameBuf,
    /// The holder.
    pub owner: OwnerId,
    /// The mode.
    pub mode: Mode,
    /// The token of the grant.
    pub token: FencingToken,
    /// The instant of the grant.
    pub since: Instant,
    /// The metadata that the owner gave for the lock.
    pub metadata: Option<Box<str>>,
}

/// The locks that an owner gives up at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoidLocks {
    /// All: the owner has ended.
    OfEnded(OwnerEnd),
    /// All of these tokens, except those of some names.
    AllBut {
        /// The highest token; later locks are not meant.
        up_to: FencingToken,
        /// The names whose locks stay.
        spared: Vec<NameBuf>,
    },
    /// The locks of these names, under these tokens.
    These(Vec<(NameBuf, FencingToken)>),
}

/// A claim: a reservation that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRecord {
    /// The resource name.
    pub name: NameBuf,
    /// The claimant.
    pub claimant: Box<str>,
    /// The fencing token of the claim, which is also its number.
    pub token: FencingToken,
    /// How long it lasts unless it is renewed, in milliseconds.
    pub ttl_ms: u64,
    /// The instant at which it began.
    pub since: Instant,
    /// The seed from which its secret is derived.
    pub seed: SecretSeed,
    /// The metadata that the claimant gave for the claim.
    pub metadata: Option<Box<str>>,
}

/// A claim made final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentRecord {
    /// The resource name.
    pub name: NameBuf,
    /// The claimant to whom the name belongs.
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
    /// A command ended the owner.
    Ended,
    /// The owner was inactive for its TTL.
    Expired,
    /// The longest life of the owner was over.
    Overdue,
}

/// Who broke a hold, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BrokenBy {
    /// The operator, as the caller names it.
    pub operator: Box<str>,
    /// The operator's words.
    pub reason: Option<Box<str>>,
}

/// Why an offline lock ended, apart from [`Change::OwnerEnded`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockEnd {
    /// The owner released the lock.
    Released,
    /// The step of the business transaction that took it failed.
    Undone,
    /// A web lock request stole the name.
    Stolen,
    /// An operator broke the lock.
    Broken(BrokenBy),
    /// The owner has ended, at which the lock became [void](Change::LocksVoided).
    WithOwner(OwnerEnd),
}

/// Why a claim ended without having been made final.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimEnd {
    /// The claim was released.
    Released,
    /// The TTL of the claim was over.
    Expired,
    /// A web lock request stole the name.
    Stolen,
    /// An operator broke the claim.
    Broken(BrokenBy),
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
