//! Void locks: those that an owner has given up at once, or that have ended with it, more of them than fit
//! into one commit. A void lock has no holder, but it keeps its name until it is swept.
//!
//! ```text
//!   PartySlot.all ─▶ LockEntry ⇄ …          the owner's
//!            .owner.void.locks ─▶ LockEntry ⇄ …    void, in the order in which they are swept
//! ```

use std::hash::BuildHasher;

use super::list::{ByParty, List};
use super::table::{LockTable, PartySlot, Tenure};
use crate::{OwnerEnd, OwnerId};

/// The void locks of an owner.
#[derive(Clone, Debug)]
pub(crate) struct VoidList {
    /// The locks, in the order in which they are swept.
    pub(crate) locks: List,
    pub(crate) count: u32,
    /// The locks of the owner with serials up to this one are void.
    up_to_serial: u64,
    /// The turn of the owner in the sweep, while it has one.
    pub(crate) turn: Option<u64>,
    /// Why the owner has ended, if it has.
    pub(crate) ended: Option<OwnerEnd>,
}

impl VoidList {
    pub(crate) const EMPTY: Self =
        Self { locks: List::EMPTY, count: 0, up_to_serial: VOID, turn: None, ended: None };
}

/// The serial of a lock that was made void by itself. No other entry has it.
const VOID: u64 = 0;

impl<S: BuildHasher> LockTable<S> {
    /// Whether the entry is a void lock.
    pub(crate) fn is_void(&self, slot: u32) -> bool {
        let entry = &self.entries[slot];
        match entry.tenure() {
            Tenure::Owner(party) => entry.serial <= self.owner(party).void.up_to_serial,
            Tenure::Agent(_) | Tenure::Ttl(_) => false,
        }
    }

    /// How many locks the owner has, without void ones.
    pub(crate) fn locks_of_owner(&self, party: u32) -> u32 {
        self.parties[party].count - self.owner(party).void.count
    }

    /// The slot of the owner, if it lives or is still to be swept.
    pub(crate) fn any_owner(&self, owner: OwnerId) -> Option<u32> {
        self.owners.get(&owner).or_else(|| self.ended_owners.get(&owner)).copied()
    }

    pub(crate) fn void_list_mut(&mut self, party: u32) -> &mut VoidList {
        void_list(&mut self.parties[party])
    }

    /// The lock becomes void.
    pub(crate) fn make_void(&mut self, party: u32, slot: u32) {
        debug_assert!(!self.is_void(slot), "a lock becomes void once");
        let Self { parties, entries, void_locks, .. } = self;
        *void_locks += 1;
        parties[party].all.remove::<ByParty>(entries, slot);
        entries[slot].serial = VOID;
        let void = void_list(&mut parties[party]);
        void.locks.push_back::<ByParty>(entries, slot);
        void.count += 1;
    }

    /// All locks of the owner become void, except the spared ones. O(spared): these get new serials.
    pub(crate) fn make_all_void_but(&mut self, party: u32, mut spared: Vec<u32>) {
        let up_to_serial = self.next_serial();
        // Oldest first, as they were.
        spared.sort_unstable_by_key(|slot| self.entries[*slot].serial);
        for slot in &spared {
            self.entries[*slot].serial = self.next_serial();
        }
        let Self { parties, entries, .. } = self;
        let mut stay = List::EMPTY;
        for slot in &spared {
            parties[party].all.remove::<ByParty>(entries, *slot);
            stay.push_back::<ByParty>(entries, *slot);
        }
        let party = &mut parties[party];
        let (all, count) = (std::mem::replace(&mut party.all, stay), party.count);
        let void = void_list(party);
        void.locks.append::<ByParty>(entries, all);
        let before = std::mem::replace(&mut void.count, count - spared.len() as u32);
        void.up_to_serial = up_to_serial;
        self.void_locks += (void.count - before) as usize;
    }

    /// The owner ends, and all its locks are void.
    pub(crate) fn end_owner(&mut self, party: u32, why: OwnerEnd) {
        self.make_all_void_but(party, Vec::new());
        self.parties[party].lease = None;
        self.void_list_mut(party).ended = Some(why);
        let (owner, seed) = (self.owner(party).id, self.owner(party).seed);
        self.owners.remove(&owner);
        self.seeds.remove(seed, owner);
        self.ended_owners.insert(owner, party);
    }

    /// A lock of the owner leaves its list.
    #[cold]
    pub(super) fn leave_owner(&mut self, party: u32, slot: u32) {
        if !self.is_void(slot) {
            return self.leave_party(party, slot);
        }
        let Self { parties, entries, void_locks, .. } = self;
        *void_locks -= 1;
        let party = &mut parties[party];
        party.count -= 1;
        let void = void_list(party);
        void.locks.remove::<ByParty>(entries, slot);
        void.count -= 1;
    }
}

fn void_list(party: &mut PartySlot) -> &mut VoidList {
    &mut party.owner.as_mut().expect("only owners have void locks").void
}
