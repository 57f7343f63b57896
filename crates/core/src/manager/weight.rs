//! What commands may add to what a manager takes.

use super::recovery::most_bytes_of_fence;
use super::table::{most_bytes_of_claim, most_bytes_of_entry, most_bytes_of_party};
use crate::{Acquire, Command, NewAgent, NewClaim, NewLocks, NewOwner, NewReclaim, NewRequest};

impl NewRequest<'_> {
    /// No more does it add to [`LockManager::bytes`](crate::LockManager::bytes).
    #[inline]
    pub fn most_bytes(&self) -> usize {
        let entry = most_bytes_of_entry(self.name, self.metadata);
        if self.acquire == Acquire::Steal { entry + most_bytes_of_fence(self.name) } else { entry }
    }
}

impl Command<'_> {
    /// No more does it add to [`LockManager::bytes`](crate::LockManager::bytes), except `Finalize`, which adds at most the name if somebody waits for it: nobody who has
    /// a claim is to be kept from making it final.
    #[inline]
    pub fn most_bytes(&self) -> usize {
        match *self {
            Self::Request(ref request) => request.most_bytes(),
            Self::Join(NewAgent { client_id, .. }) => most_bytes_of_party(client_id, None),
            Self::OpenOwner(NewOwner { label, metadata, .. }) => most_bytes_of_party(label, metadata),
            Self::Lock(NewLocks { locks, metadata, .. }) => {
                locks.iter().map(|(name, _)| most_bytes_of_entry(*name, metadata)).sum()
            }
            Self::Claim(NewClaim { name, claimant, metadata, .. }) => {
                most_bytes_of_entry(name, metadata) + most_bytes_of_claim(claimant)
            }
            Self::Reclaim(NewReclaim { name, metadata, .. }) => {
                most_bytes_of_entry(name, metadata) + most_bytes_of_fence(name)
            }
            _ => 0,
        }
    }
}
