//! Owners: sessions or business transactions, and how they begin, live and end.
//! <https://martinfowler.com/eaaCatalog/pessimisticOfflineLock.html>

use std::hash::BuildHasher;

use super::LockManager;
use super::tables::list::ByParty;
use super::tables::table::OwnerDetails;
use super::tables::void::VoidList;
use crate::{
    Change, Discipline, EndCause, Instant, LossCause, NameBuf, NewOwner, Now, OwnerEnd, OwnerId, OwnerRecord,
    Refusal, VoidLocks,
};

impl<S: BuildHasher> LockManager<S> {
    pub(super) fn open_owner(&mut self, now: Now, new: &NewOwner<'_>) -> Result<OwnerId, Refusal> {
        let limits = self.limits;
        limits.check_label(new.label)?;
        limits.check_metadata(new.metadata)?;
        limits.check_ttl(new.ttl_ms)?;
        if self.closed {
            return Err(Refusal::Closed);
        }
        if self.table.owners.len() + self.table.ended_owners.len() >= limits.owners as usize {
            return Err(Refusal::TooManyOwners { limit: limits.owners });
        }
        let record = OwnerRecord {
            owner: OwnerId::new(self.next_number()),
            label: new.label.into(),
            metadata: new.metadata.map(Into::into),
            ttl_ms: new.ttl_ms,
            since: now.tick(),
            ends: new.max_ms.map(|ms| now.deadline(ms)),
            seed: new.seed,
        };
        let party = self.add_owner(&record, now.deadline(new.ttl_ms));
        self.table.owner_event(party, None);
        let owner = record.owner;
        self.change(Change::OwnerOpened(record));
        Ok(owner)
    }

    /// An owner that lives until `expires` unless it is touched.
    pub(super) fn add_owner(&mut self, record: &OwnerRecord, expires: Instant) -> u32 {
        let OwnerRecord { owner: id, ref label, ref metadata, ttl_ms, since, ends, seed } = *record;
        let owner = OwnerDetails { id, metadata: metadata.clone(), since, ends, seed, void: VoidList::EMPTY };
        let party = self.table.add_party(label, Some(Box::new(owner)));
        self.give_lease(party, ttl_ms, at_most(expires, ends));
        party.slot
    }

    pub(super) fn touch_owner(&mut self, now: Now, owner: OwnerId) -> bool {
        let party = self.live_owner(now, owner);
        party.map(|party| self.touch(now, party)).is_some()
    }

    /// The TTL of the owner runs anew. O(1), as for agents.
    pub(super) fn touch(&mut self, now: Now, party: u32) {
        let ends = self.table.owner(party).ends;
        if let Some(lease) = &mut self.table.parties[party].lease {
            lease.ends = lease.ends.max(at_most(now.deadline(lease.length_ms), ends));
        }
    }

    pub(super) fn end_owner(&mut self, now: Now, owner: OwnerId) -> bool {
        let Some(party) = self.live_owner(now, owner) else { return false };
        self.finish_owner(now, party, OwnerEnd::Ended);
        self.process_touched(now);
        true
    }

    /// The slot of an owner that lives. An owner whose longest life is over ends at once, whether or not the
    /// timeout has come.
    pub(super) fn live_owner(&mut self, now: Now, owner: OwnerId) -> Option<u32> {
        let party = *self.table.owners.get(&owner)?;
        if self.table.owner(party).ends.is_none_or(|ends| ends > now.tick()) {
            return Some(party);
        }
        self.finish_owner(now, party, OwnerEnd::Overdue);
        self.process_touched(now);
        None
    }

    /// The owner's lease, armed until now, is over.
    pub(super) fn expire_owner(&mut self, now: Now, party: u32) {
        let overdue = self.table.owner(party).ends.is_some_and(|ends| ends <= now.tick());
        self.finish_owner(now, party, if overdue { OwnerEnd::Overdue } else { OwnerEnd::Expired });
    }

    /// The owner ends with all its locks, which is one change. The names that it leaves are still to be
    /// processed. More locks than fit into one commit become void.
    fn finish_owner(&mut self, now: Now, party: u32, reason: OwnerEnd) {
        let (owner, at) = (self.table.owner(party).id, now.tick());
        if let Some(cause) = LossCause::of_owner(reason) {
            let count = self.table.locks_of_owner(party) as usize;
            self.table.tally_loss(Discipline::Offline, cause, count);
        }
        self.table.owner_event(party, Some(reason));
        if self.table.parties[party].count as usize > self.limits.locks_ended_at_once {
            self.end_owner_in_parts(party, reason);
            return self.change(Change::LocksVoided { owner, which: VoidLocks::OfEnded(reason), at });
        }
        let names = self.names_of(party);
        self.disarm_lease_of_owner(party);
        self.end_turn(party);
        self.table.ends_for(|| EndCause::WithOwner(reason));
        self.remove_all_of(party);
        self.change(Change::OwnerEnded { owner, names, reason, at });
    }

    /// The owner ends, and its locks are still to be swept.
    pub(super) fn end_owner_in_parts(&mut self, party: u32, reason: OwnerEnd) {
        self.disarm_lease_of_owner(party);
        self.table.end_owner(party, reason);
        self.begin_sweep(party);
    }

    pub(super) fn disarm_lease_of_owner(&mut self, party: u32) {
        if let Some(lease) = self.table.parties[party].lease {
            self.deadlines.disarm_lease(self.table.party_id(party), lease.armed);
        }
    }

    fn names_of(&self, party: u32) -> Vec<NameBuf> {
        let table = &self.table;
        let void = table.owner(party).void.locks.iter::<ByParty>(&table.entries);
        let locks = void.chain(table.parties[party].all.iter::<ByParty>(&table.entries));
        locks.map(|slot| table.names[table.entries[slot].name].name.clone()).collect()
    }
}

fn at_most(at: Instant, ends: Option<Instant>) -> Instant {
    ends.map_or(at, |ends| ends.min(at))
}
