//! Upper bounds of the memory that commands add to a manager.

use std::hash::BuildHasher;

use super::LockManager;
use super::recovery::most_bytes_of_fence;
use super::tables::weights::{most_bytes_of_claim, most_bytes_of_entry, most_bytes_of_party};
use crate::{Acquire, Command, Mode, NewAgent, NewClaim, NewLocks, NewOwner, NewReclaim, NewRequest};

impl NewRequest<'_> {
    /// The most bytes that the request adds to [`LockManager::bytes`].
    #[inline]
    pub fn most_bytes(&self) -> usize {
        let entry = most_bytes_of_entry(self.name, self.metadata);
        if self.acquire == Acquire::Steal { entry + most_bytes_of_fence(self.name) } else { entry }
    }
}

impl<S: BuildHasher> LockManager<S> {
    /// The most bytes that the command adds to [`bytes`](Self::bytes). `Finalize` is the exception: it adds
    /// at most the name, if requests wait for it. No claimant is to be prevented from making its claim final.
    #[inline]
    pub fn most_bytes_of(&self, command: &Command<'_>) -> usize {
        match *command {
            Command::Request(ref request) => request.most_bytes(),
            Command::Join(NewAgent { client_id, .. }) => most_bytes_of_party(client_id, None),
            Command::OpenOwner(NewOwner { label, metadata, .. }) => most_bytes_of_party(label, metadata),
            Command::Lock(ref new) => self.most_bytes_of_locks(new),
            Command::Claim(NewClaim { name, claimant, metadata, .. }) => {
                most_bytes_of_entry(name, metadata) + most_bytes_of_claim(claimant)
            }
            Command::Reclaim(NewReclaim { name, metadata, .. }) => {
                most_bytes_of_entry(name, metadata) + most_bytes_of_fence(name)
            }
            _ => 0,
        }
    }

    /// Locks that the owner already has add nothing.
    fn most_bytes_of_locks(&self, new: &NewLocks<'_>) -> usize {
        let party = self.table.owners.get(&new.owner);
        let is_had = |&(name, mode): &(_, Mode)| {
            let own = party.and_then(|party| self.own_lock(*party, name, None));
            own.is_some_and(|own| self.covers(own, mode))
        };
        let fresh = new.locks.iter().filter(|lock| !is_had(lock));
        fresh.map(|(name, _)| most_bytes_of_entry(*name, new.metadata)).sum()
    }
}
