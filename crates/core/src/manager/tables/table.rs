//! The state of a lock manager: names, entries and parties in slabs, found through one index.
//!
//! ```text
//!   index: hash ─▶ NameSlot ──held──▶ LockEntry ⇄ LockEntry
//!                      └─────queue──▶ LockEntry ⇄ LockEntry ⇄ …
//!   owned: (party, name) ─▶ LockEntry
//!
//!   LockEntry.name ─▶ NameSlot
//!   LockEntry.tenure ─▶ PartySlot ──all──▶ LockEntry ⇄ …
//!                       or ClaimDetails
//! ```
//!
//! An entry is a lock request from its arrival on, and the lock after its grant: a grant only moves it from
//! one list to another.

use std::hash::BuildHasher;

use super::arena::{Arena, KEPT};
use super::held::HeldCounts;
use super::list::{ByName, ByParty, List, ListLink, NONE};
use super::seeds::OwnerSeeds;
use super::tally::TableTally;
use super::void::VoidList;
use crate::{AgentId, FencingToken, Instant, Mode, Name, NameBuf, OwnerId, RequestId, SecretSeed};
use hashbrown::HashTable;
use std::collections::BTreeMap;

/// The event that ends a hold, unless its holder releases it or it is stolen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenure {
    /// The end of the agent in this slot of `parties`.
    Agent(u32),
    /// The end of the owner in this slot of `parties`.
    Owner(u32),
    /// The time of the claim in this slot of `claims`.
    Ttl(u32),
}

/// A [`Tenure`] without its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TenureKind {
    Agent,
    /// Of an agent, whose request waits only because the manager recovers.
    AgentIfAvailable,
    Owner,
    Ttl,
}

/// A lock request, or the lock that it became.
#[derive(Clone, Debug)]
pub(crate) struct LockEntry {
    pub(crate) serial: u64,
    /// `None` while pending.
    pub(crate) token: Option<HeldToken>,
    pub(crate) since: Instant,
    pub(crate) by_name: ListLink,
    pub(crate) by_party: ListLink,
    pub(crate) name: u32,
    /// The slot of its tenure, stored apart, as a whole tenure would take four bytes more.
    holder_slot: u32,
    /// Its slot in `extras`, or `NONE`.
    pub(crate) extras: u32,
    pub(crate) mode: Mode,
    kind: TenureKind,
    /// How many answers since the grant or upgrade said that the owner already has the lock. The highest
    /// value stands for any number.
    pub(crate) repeats: u8,
    /// The same count of the answers before the upgrade.
    pub(crate) repeats_before_upgrade: u8,
}

impl LockEntry {
    #[inline]
    pub(crate) fn tenure(&self) -> Tenure {
        match self.kind {
            TenureKind::Agent | TenureKind::AgentIfAvailable => Tenure::Agent(self.holder_slot),
            TenureKind::Owner => Tenure::Owner(self.holder_slot),
            TenureKind::Ttl => Tenure::Ttl(self.holder_slot),
        }
    }

    /// From now on the request waits only because the manager recovers.
    pub(crate) fn wait_until_recovered(&mut self) {
        debug_assert_eq!(self.kind, TenureKind::Agent);
        self.kind = TenureKind::AgentIfAvailable;
    }

    pub(crate) fn waits_for_recovery(&self) -> bool {
        self.kind == TenureKind::AgentIfAvailable
    }

    /// Later answers to the owner count for the upgraded lock.
    pub(crate) fn count_upgraded_anew(&mut self) {
        self.repeats_before_upgrade =
            self.repeats_before_upgrade.saturating_add(std::mem::take(&mut self.repeats));
    }

    /// The token of the held lock.
    #[inline]
    pub(crate) fn held_token(&self) -> FencingToken {
        self.token.expect("what is in a held set was granted").token()
    }
}

/// The token of a held lock, in a form whose `Option` takes no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldToken(std::num::NonZeroU64);

impl HeldToken {
    pub(crate) fn new(token: FencingToken) -> Self {
        Self(std::num::NonZeroU64::new(token.get()).expect("a fencing token is never 0"))
    }

    pub(crate) fn token(self) -> FencingToken {
        FencingToken::new(self.0.get())
    }
}

/// Fields that few entries have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) metadata: Option<Box<str>>,
    pub(crate) max_hold_ms: Option<u64>,
    pub(crate) expires: Option<Instant>,
}

/// A name with a held or queued entry.
#[derive(Clone, Debug)]
pub(crate) struct NameSlot {
    pub(crate) name: NameBuf,
    hash: u64,
    pub(crate) held: List,
    pub(crate) queue: List,
    pub(crate) queued: u32,
}

/// An agent or an owner.
#[derive(Clone, Debug)]
pub(crate) struct PartySlot {
    pub(crate) serial: u64,
    pub(crate) label: Box<str>,
    /// Every request and lock of the party, oldest first, without void ones.
    pub(crate) all: List,
    /// How many there are, with void ones.
    pub(crate) count: u32,
    /// How many of an agent's are held.
    pub(crate) held: u32,
    pub(crate) lease: Option<ArmedLease>,
    /// The additional fields of an owner; `None` for an agent.
    pub(crate) owner: Option<Box<OwnerDetails>>,
    /// Whether the agent is one of another process.
    is_remote: bool,
}

/// Fields that only owners have.
#[derive(Clone, Debug)]
pub(crate) struct OwnerDetails {
    pub(crate) id: OwnerId,
    pub(crate) metadata: Option<Box<str>>,
    pub(crate) since: Instant,
    pub(crate) ends: Option<Instant>,
    pub(crate) seed: SecretSeed,
    pub(crate) void: VoidList,
}

/// Fields that only claims have.
#[derive(Clone, Debug)]
pub(crate) struct ClaimDetails {
    pub(crate) claimant: Box<str>,
    pub(crate) seed: SecretSeed,
    pub(crate) lease: ArmedLease,
}

/// The lease of a party or a claim. Renewing moves `ends` alone, never back; the armed deadline catches up
/// when it fires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArmedLease {
    pub(crate) length_ms: u64,
    pub(crate) ends: Instant,
    pub(crate) armed: Instant,
}

/// The whole state of a manager, without its rules.
#[derive(Clone, Debug)]
pub(crate) struct LockTable<S> {
    index: HashTable<u32>,
    hasher: S,
    pub(crate) names: Arena<NameSlot>,
    pub(crate) entries: Arena<LockEntry>,
    pub(crate) extras: Arena<Extras>,
    pub(crate) parties: Arena<PartySlot>,
    pub(crate) claims: Arena<ClaimDetails>,
    /// The owners that live.
    pub(crate) owners: BTreeMap<OwnerId, u32>,
    /// The same owners by their seeds.
    pub(crate) seeds: OwnerSeeds,
    /// The owners that have ended and whose locks are still to be swept.
    pub(crate) ended_owners: BTreeMap<OwnerId, u32>,
    /// The offline locks, found by owner and name.
    owned: HashTable<u32>,
    /// The web locks, counted as they come and go.
    held: HeldCounts,
    /// How many locks are void.
    pub(crate) void_locks: usize,
    /// What has happened, if that is counted.
    pub(crate) tally: Option<Box<TableTally>>,
    last_serial: u64,
}

impl<S: BuildHasher> LockTable<S> {
    pub(crate) fn new(hasher: S) -> Self {
        Self {
            index: HashTable::new(),
            hasher,
            names: Arena::new(),
            entries: Arena::new(),
            extras: Arena::new(),
            parties: Arena::new(),
            claims: Arena::new(),
            owners: BTreeMap::new(),
            seeds: OwnerSeeds::default(),
            ended_owners: BTreeMap::new(),
            owned: HashTable::new(),
            held: HeldCounts::default(),
            void_locks: 0,
            tally: None,
            last_serial: 0,
        }
    }

    /// "Get the lock request queue": finds the name, or makes it; `None` if there are `limit` names already.
    #[inline]
    pub(crate) fn name_slot(&mut self, name: Name<'_>, limit: u32) -> Option<u32> {
        let hash = self.hasher.hash_one(name.as_wtf8());
        let names = &mut self.names;
        if let Some(&slot) = self.index.find(hash, |&slot| names[slot].name.as_name() == name) {
            return Some(slot);
        }
        if names.len() >= limit as usize {
            return None;
        }
        let name = name.to_buf();
        let slot = names.insert(NameSlot { name, hash, held: List::EMPTY, queue: List::EMPTY, queued: 0 });
        self.index.insert_unique(hash, slot, |&slot| names[slot].hash);
        Some(slot)
    }

    /// The name, if it has a held or queued entry.
    pub(crate) fn find_name(&self, name: Name<'_>) -> Option<u32> {
        let hash = self.hasher.hash_one(name.as_wtf8());
        self.index.find(hash, |&slot| self.names[slot].name.as_name() == name).copied()
    }

    /// "Has lock": the offline lock of that owner on that name.
    pub(crate) fn own_lock(&self, party: u32, name: u32) -> Option<u32> {
        self.own_entry(party, name).filter(|own| !self.is_void(*own))
    }

    /// The same, if only a void one.
    pub(crate) fn own_entry(&self, party: u32, name: u32) -> Option<u32> {
        let is_it = |&slot: &u32| is_owned(&self.entries[slot], party, name);
        self.owned.find(self.hasher.hash_one((party, name)), is_it).copied()
    }

    /// Forgets a name without held or queued entries.
    #[inline]
    pub(crate) fn forget_if_idle(&mut self, name: u32) {
        let slot = &self.names[name];
        if !slot.held.is_empty() || !slot.queue.is_empty() {
            return;
        }
        debug_assert_eq!(slot.queued, 0, "an empty queue has no requests");
        let hash = slot.hash;
        if let Ok(found) = self.index.find_entry(hash, |&slot| slot == name) {
            found.remove();
        }
        self.names.remove(name);
        if self.index.len() * 8 < self.index.capacity() && self.index.capacity() > KEPT {
            self.shrink_index();
        }
    }

    #[cold]
    fn shrink_index(&mut self) {
        let names = &self.names;
        self.index.shrink_to(self.index.len() * 2, |&slot| names[slot].hash);
    }

    /// A new entry of that tenure, in no list of its name yet.
    #[inline]
    pub(crate) fn add_entry(
        &mut self,
        since: Instant,
        name: u32,
        tenure: Tenure,
        mode: Mode,
        extras: Option<Extras>,
    ) -> RequestId {
        let serial = self.next_serial();
        let extras = extras.map_or(NONE, |extras| self.extras.insert(extras));
        let (by_name, by_party) = (ListLink::ALONE, ListLink::ALONE);
        let (kind, holder_slot) = match tenure {
            Tenure::Agent(party) => (TenureKind::Agent, party),
            Tenure::Owner(party) => (TenureKind::Owner, party),
            Tenure::Ttl(claim) => (TenureKind::Ttl, claim),
        };
        let slot = self.entries.insert(LockEntry {
            serial,
            token: None,
            since,
            by_name,
            by_party,
            name,
            holder_slot,
            extras,
            mode,
            kind,
            repeats: 0,
            repeats_before_upgrade: 0,
        });
        if kind != TenureKind::Ttl {
            let party = &mut self.parties[holder_slot];
            party.all.push_back::<ByParty>(&mut self.entries, slot);
            party.count += 1;
        }
        if kind == TenureKind::Owner {
            self.add_owned(slot);
        }
        RequestId { slot, serial }
    }

    #[cold]
    fn add_owned(&mut self, slot: u32) {
        let Self { entries, hasher, owned, .. } = self;
        let hash = |slot: u32| hasher.hash_one((entries[slot].holder_slot, entries[slot].name));
        owned.insert_unique(hash(slot), slot, |&slot| hash(slot));
    }

    #[cold]
    fn remove_owned(&mut self, slot: u32) {
        let Self { entries, hasher, owned, .. } = self;
        let hash = |slot: u32| hasher.hash_one((entries[slot].holder_slot, entries[slot].name));
        if let Ok(found) = owned.find_entry(hash(slot), |&other| other == slot) {
            found.remove();
        }
        if owned.len() * 8 < owned.capacity() && owned.capacity() > KEPT {
            owned.shrink_to(owned.len() * 2, |&slot| hash(slot));
        }
    }

    /// Takes the entry out of every list and forgets it; its name stays for the caller to process or forget.
    #[inline]
    pub(crate) fn remove_entry(&mut self, slot: u32) -> Removed {
        self.tally_end(slot, None);
        let entry = &self.entries[slot];
        let (name, kind, holder_slot, token) = (entry.name, entry.kind, entry.holder_slot, entry.token);
        self.leave_name(name, slot, token.is_some());
        match kind {
            TenureKind::Agent | TenureKind::AgentIfAvailable => {
                if token.is_some() {
                    let party = &mut self.parties[holder_slot];
                    party.held -= 1;
                    self.held.remove(party.is_remote);
                }
                self.leave_party(holder_slot, slot);
            }
            TenureKind::Owner => {
                self.leave_owner(holder_slot, slot);
                self.remove_owned(slot);
            }
            TenureKind::Ttl => return self.drop_claim(slot, holder_slot),
        }
        self.drop_entry(slot)
    }

    #[inline]
    pub(super) fn leave_party(&mut self, party: u32, slot: u32) {
        let party = &mut self.parties[party];
        party.all.remove::<ByParty>(&mut self.entries, slot);
        party.count -= 1;
    }

    #[cold]
    fn drop_claim(&mut self, slot: u32, claim: u32) -> Removed {
        let armed = Some(self.claims.remove(claim).lease.armed);
        Removed { armed, ..self.drop_entry(slot) }
    }

    fn leave_name(&mut self, name: u32, slot: u32, held: bool) {
        let name = &mut self.names[name];
        if held {
            name.held.remove::<ByName>(&mut self.entries, slot);
        } else {
            name.queue.remove::<ByName>(&mut self.entries, slot);
            name.queued -= 1;
        }
    }

    #[inline]
    fn drop_entry(&mut self, slot: u32) -> Removed {
        let entry = self.entries.remove(slot);
        let mut armed = None;
        if entry.extras != NONE {
            armed = self.extras.remove(entry.extras).expires;
        }
        Removed { request: RequestId { slot, serial: entry.serial }, name: entry.name, armed }
    }

    /// Removes a party and all its entries, oldest first.
    pub(crate) fn remove_party(&mut self, slot: u32, mut removed: impl FnMut(Removed)) -> PartySlot {
        let party = self.parties.remove(slot);
        let mut all = List::EMPTY;
        if let Some(owner) = &party.owner {
            self.owners.remove(&owner.id);
            self.seeds.remove(owner.seed, owner.id);
            self.ended_owners.remove(&owner.id);
            all = owner.void.locks;
        }
        all.append::<ByParty>(&mut self.entries, party.all);
        debug_assert_eq!(all.iter::<ByParty>(&self.entries).count(), party.count as usize);
        let mut next = all.head;
        while next != NONE {
            self.tally_end(next, Some(&party));
            let entry = &self.entries[next];
            let (after, name, held) = (entry.by_party.next, entry.name, entry.token.is_some());
            self.leave_name(name, next, held);
            if party.owner.is_some() {
                self.remove_owned(next);
            } else if held {
                self.held.remove(party.is_remote);
            }
            removed(self.drop_entry(next));
            next = after;
        }
        party
    }

    /// A new party without a lease. Inside the table, owners have the same ids as agents, beside their
    /// numbers.
    pub(crate) fn add_party(&mut self, label: &str, owner: Option<Box<OwnerDetails>>) -> AgentId {
        let serial = self.next_serial();
        let owner_of_seed = owner.as_ref().map(|owner| (owner.id, owner.seed));
        let (all, lease, is_remote) = (List::EMPTY, None, false);
        let party =
            PartySlot { serial, label: label.into(), all, count: 0, held: 0, lease, owner, is_remote };
        let slot = self.parties.insert(party);
        if let Some((owner, seed)) = owner_of_seed {
            self.owners.insert(owner, slot);
            self.seeds.insert(seed, owner);
        }
        AgentId { slot, serial }
    }

    /// The agent, which holds nothing yet, is one of another process.
    pub(crate) fn mark_remote(&mut self, agent: AgentId) {
        if let Some(party) = self.party_mut(agent) {
            debug_assert_eq!(party.count, 0, "an agent that has requested something");
            party.is_remote = true;
        }
    }

    /// Whether the agent in that slot is one of another process.
    pub(crate) fn is_remote(&self, party: u32) -> bool {
        self.parties[party].is_remote
    }

    /// The entry has become a lock.
    #[inline]
    pub(crate) fn count_held(&mut self, slot: u32) {
        if let Tenure::Agent(party) = self.entries[slot].tenure() {
            let party = &mut self.parties[party];
            party.held += 1;
            self.held.add(party.is_remote);
        }
    }

    /// How many web locks are held. O(1).
    pub(crate) fn held(&self) -> HeldCounts {
        debug_assert_eq!(self.held, self.held_in_full(), "a web lock came or went uncounted");
        self.held
    }

    fn held_in_full(&self) -> HeldCounts {
        let mut held = HeldCounts::default();
        for (_, entry) in self.entries.slots() {
            if let (Some(_), Tenure::Agent(party)) = (entry.token, entry.tenure()) {
                held.add(self.parties[party].is_remote);
            }
        }
        held
    }

    /// As [`held`](Self::held), without a check.
    pub(crate) fn held_web_locks(&self) -> usize {
        self.held.all
    }

    /// How many offline locks there are, with void ones.
    pub(super) fn owned_entries(&self) -> usize {
        self.owned.len()
    }

    pub(crate) fn agents(&self) -> usize {
        self.parties.len() - self.owners.len() - self.ended_owners.len()
    }

    /// The party, unless it has ended.
    #[inline]
    pub(crate) fn party_mut(&mut self, id: AgentId) -> Option<&mut PartySlot> {
        self.parties.get_mut(id.slot).filter(|party| party.serial == id.serial)
    }

    /// The entry, unless it has ended.
    #[inline]
    pub(crate) fn entry(&self, id: RequestId) -> Option<&LockEntry> {
        self.entries.get(id.slot).filter(|entry| entry.serial == id.serial)
    }

    pub(crate) fn requests_of(&self, id: AgentId) -> impl Iterator<Item = RequestId> + '_ {
        let party = self.parties.get(id.slot).filter(|party| party.serial == id.serial);
        let all = party.map_or(List::EMPTY, |party| party.all);
        all.iter::<ByParty>(&self.entries).map(|slot| RequestId { slot, serial: self.entries[slot].serial })
    }

    /// The party with its serial number.
    #[inline]
    pub(crate) fn party_id(&self, slot: u32) -> AgentId {
        AgentId { slot, serial: self.parties[slot].serial }
    }

    /// The fields that only owners have. The party in that slot must be an owner.
    pub(crate) fn owner(&self, party: u32) -> &OwnerDetails {
        self.parties[party].owner.as_ref().expect("offline locks are of owners alone")
    }

    #[inline]
    pub(crate) fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    pub(crate) fn set_metadata(&mut self, slot: u32, metadata: &str) {
        let entry = &mut self.entries[slot];
        let others = if entry.extras == NONE { Extras::default() } else { self.extras.remove(entry.extras) };
        entry.extras = self.extras.insert(Extras { metadata: Some(metadata.into()), ..others });
    }

    /// The memory of the whole table.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let Self { names, entries, extras, parties, claims, .. } = self;
        names.bytes() + entries.bytes() + extras.bytes() + parties.bytes() + claims.bytes()
    }

    /// The memory of the metadata of all entries.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.extras.heap_bytes()
    }

    /// Whether any request or lock has metadata or a longest hold.
    #[inline]
    pub(crate) fn has_extras(&self) -> bool {
        !self.extras.is_empty()
    }

    pub(crate) fn extras_of(&self, entry: &LockEntry) -> Option<&Extras> {
        (entry.extras != NONE).then(|| &self.extras[entry.extras])
    }
}

/// A removed entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    pub(crate) request: RequestId,
    pub(crate) name: u32,
    /// The instant for which its deadline was armed, if it has one.
    pub(crate) armed: Option<Instant>,
}

fn is_owned(entry: &LockEntry, party: u32, name: u32) -> bool {
    entry.kind == TenureKind::Owner && entry.holder_slot == party && entry.name == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_at_most_56_bytes_and_a_name_at_most_56() {
        assert!(size_of::<LockEntry>() <= 56, "{}", size_of::<LockEntry>());
        assert!(size_of::<NameSlot>() <= 56, "{}", size_of::<NameSlot>());
    }
}
