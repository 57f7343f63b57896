//! Upper bounds of the memory that commands add to a manager, and the sizes of steps that may be large.

use std::hash::BuildHasher;

use super::LockManager;
use super::recovery::most_bytes_of_fence;
use super::tables::deadlines::Due;
use super::tables::list::{ByName, NONE};
use super::tables::table::NameSlot;
use super::tables::weights::{most_bytes_of_claim, most_bytes_of_entry, most_bytes_of_party};
use crate::{
    Acquire, AgentId, Command, HoldToBreak, Instant, Mode, Name, NewAgent, NewClaim, NewLocks, NewOwner,
    NewReclaim, NewRequest, RequestId,
};

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

    /// How many requests and locks the command ends, or grants to shared requests that wait, in one step, if
    /// that may be many; as many as `most` are counted where they have to be.
    pub fn size_of_step(&self, command: &Command<'_>, most: usize) -> usize {
        match *command {
            Command::End { agent } => self.size_of_agent(agent),
            Command::Request(NewRequest { name, acquire: Acquire::Steal, .. }) => {
                let held = self.table.find_name(name).map(|name| self.table.names[name].held);
                held.map_or(0, |held| held.iter::<ByName>(&self.table.entries).take(most).count())
            }
            Command::Release { request } | Command::Abort { request } => self.size_behind(request, most),
            Command::Break(HoldToBreak { name, .. }) => self.size_of_break(name, most),
            _ => 0,
        }
    }

    /// How many shared requests are granted once the request has gone, as far as they are `most`. They are
    /// counted only if it is in their way, so that no end costs more than it grants.
    fn size_behind(&self, request: RequestId, most: usize) -> usize {
        let Some(entry) = self.table.entry(request) else { return 0 };
        let name = &self.table.names[entry.name];
        let is_in_the_way = match entry.token {
            Some(_) => name.held.head == request.slot && name.held.tail == request.slot,
            None => name.queue.head == request.slot && self.fits(entry.name, Mode::Shared),
        };
        if !is_in_the_way || (name.queued as usize) < most {
            return 0;
        }
        self.shared_at_head(name, request.slot, most)
    }

    /// How many holders of the name a break looks at, or grants to shared requests behind the only one.
    fn size_of_break(&self, name: Name<'_>, most: usize) -> usize {
        let Some(name) = self.table.find_name(name).map(|name| &self.table.names[name]) else { return 0 };
        let held = name.held.iter::<ByName>(&self.table.entries).take(most).count();
        if held > 1 { held } else { self.shared_at_head(name, NONE, most) }
    }

    /// How many requests at the head of the queue are shared, apart from that one, as far as they are `most`.
    fn shared_at_head(&self, name: &NameSlot, without: u32, most: usize) -> usize {
        let waiting = name.queue.iter::<ByName>(&self.table.entries).filter(|slot| *slot != without);
        waiting.take(most).take_while(|slot| self.table.entries[*slot].mode == Mode::Shared).count()
    }

    /// How many requests and locks the next end by time ends in one step, if it is due; or else, how many
    /// requests of the next name are processed that have waited for the end of a recovery.
    pub fn size_of_next_end(&self, due: Instant) -> usize {
        match self.deadlines.peek_due(due) {
            Some(Due::Lease(party)) => self.size_of_agent(party),
            Some(Due::Hold(_)) => 1,
            None => self.size_of_next_queue(),
        }
    }

    /// How many requests of the next name have waited for the end of a recovery.
    fn size_of_next_queue(&self) -> usize {
        let name = self.unsettled.as_ref().map(|unsettled| unsettled.names.start);
        name.and_then(|name| self.table.names.get(name)).map_or(0, |name| name.queued as usize)
    }

    /// An owner counts, too: its locks end in parts where they are many.
    fn size_of_agent(&self, agent: AgentId) -> usize {
        self.table.parties.get(agent.slot).filter(|party| party.serial == agent.serial).map_or(0, |party| {
            let count = party.count as usize;
            if party.owner.is_some() { count.min(self.limits.locks_ended_at_once) } else { count }
        })
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
