//! Replay: from the durable facts back to the state.

use std::collections::HashSet;
use std::fmt;
use std::hash::BuildHasher;

use super::LockManager;
use super::claims::StoredAssignment;
use super::tables::list::ByParty;
use super::tables::table::HeldToken;
use crate::{
    AssignmentRecord, Change, ClaimRecord, FencingToken, Instant, LockRecord, Mode, Name, NameBuf, OwnerId,
    OwnerRecord, VoidLocks,
};

/// The reason why a fact contradicts the facts replayed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// A number was given twice.
    NumberGivenTwice(u64),
    /// No replayed fact opened such an owner.
    UnknownOwner(OwnerId),
    /// The holder of the name excludes this fact.
    Excluded(NameBuf),
    /// The fact ends a lock, claim or assignment that was not there.
    NotThere(NameBuf),
    /// Numbers are used up to this one, and none is left above it.
    NoNumberLeft(u64),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumberGivenTwice(number) => write!(f, "the number {number} was given twice"),
            Self::UnknownOwner(owner) => write!(f, "there is no owner {owner}"),
            Self::Excluded(name) => {
                write!(f, "{name:?} is held already, so that it cannot be held in this way")
            }
            Self::NotThere(name) => write!(f, "of {name:?} nothing of the kind was there to end"),
            Self::NoNumberLeft(number) => write!(f, "no number is left above {number}"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl<S: BuildHasher> LockManager<S> {
    /// Applies a fact that was stored before a restart. Replay all facts to a manager in which nothing has
    /// happened yet, in their order or in any other in which an owner comes before its locks, and these come
    /// before they are void. The replay causes no effects.
    ///
    /// Leases run their full length anew from `now`, and up to a tenth more, so that not all end at once;
    /// only [`OwnerRecord::ends`] means the instant that it names. Bounds do not count.
    ///
    /// # Errors
    ///
    /// If the fact contradicts those before; the state is as it was.
    pub fn replay(&mut self, now: Instant, change: &Change) -> Result<(), ReplayError> {
        match change {
            Change::TokensReserved { up_to } => {
                check_numbers_left(*up_to)?;
                self.continue_tokens_above(*up_to);
            }
            Change::OwnerOpened(record) => self.replay_owner(now, record)?,
            Change::OwnerEnded { owner, .. } => {
                let party = self.table.any_owner(*owner).ok_or(ReplayError::UnknownOwner(*owner))?;
                self.disarm_lease_of_owner(party);
                self.end_turn(party);
                self.remove_all_of(party);
            }
            Change::Locked(record) => self.replay_lock(record)?,
            Change::Unlocked { name, owner, token, .. } => {
                let not_there = || ReplayError::NotThere(name.clone());
                let party = self.table.any_owner(*owner).ok_or_else(not_there)?;
                let own = |name| self.table.own_entry(party, name);
                let slot = self.table.find_name(name.as_name()).and_then(own).ok_or_else(not_there)?;
                if self.table.entries[slot].held_token() != *token {
                    return Err(not_there());
                }
                self.remove_and_process(now.into(), slot);
            }
            Change::LocksVoided { owner, which, .. } => self.replay_void(*owner, which)?,
            Change::LocksSwept { owner } => {
                let party = self.table.owners.get(owner).copied();
                self.end_turn(party.ok_or(ReplayError::UnknownOwner(*owner))?);
            }
            Change::Claimed(record) => self.replay_claim(now, record)?,
            Change::Unclaimed { name, token, .. } => {
                let slot = self.claim_with_token(name.as_name(), *token);
                let slot = slot.ok_or_else(|| ReplayError::NotThere(name.clone()))?;
                self.remove_and_process(now.into(), slot);
            }
            Change::Assigned(record) => self.replay_assignment(now, record)?,
            Change::Unassigned { name, .. } => {
                let was = self.assignments.remove(name);
                was.ok_or_else(|| ReplayError::NotThere(name.clone()))?;
            }
        }
        // The touched names have no waiting requests.
        self.process_touched(now.into());
        Ok(())
    }

    fn replay_owner(&mut self, now: Instant, record: &OwnerRecord) -> Result<(), ReplayError> {
        let number = record.owner.get();
        if self.table.owners.contains_key(&record.owner) {
            return Err(ReplayError::NumberGivenTwice(number));
        }
        self.record_issued(number)?;
        self.add_owner(record, renewed_lease_end(now, record.ttl_ms, number));
        Ok(())
    }

    fn replay_lock(&mut self, record: &LockRecord) -> Result<(), ReplayError> {
        let owner = record.owner;
        let party = *self.table.owners.get(&owner).ok_or(ReplayError::UnknownOwner(owner))?;
        let found = self.table.find_name(record.name.as_name());
        match found.and_then(|name| self.table.own_entry(party, name)) {
            Some(own) if self.table.is_void(own) => {
                return Err(ReplayError::Excluded(record.name.clone()));
            }
            Some(own) => return self.replay_mode_change(own, record),
            None => {}
        }
        if found.is_some_and(|name| !self.fits(name, record.mode)) {
            return Err(ReplayError::Excluded(record.name.clone()));
        }
        self.record_issued(record.token.get())?;
        let name = self.name_slot_of(&record.name);
        let slot = self.add_lock(record.since, party, name, (record.mode, record.metadata.as_deref()));
        self.hold(record.since.into(), name, slot, record.token);
        // The answers about it are not stored: other steps may rely on the lock.
        self.table.entries[slot].repeats = u8::MAX;
        Ok(())
    }

    /// An upgrade, or the way back.
    fn replay_mode_change(&mut self, own: u32, record: &LockRecord) -> Result<(), ReplayError> {
        let is_sole = self.table.names[self.table.entries[own].name].held.is_only(own);
        if record.mode == Mode::Exclusive && !is_sole {
            return Err(ReplayError::Excluded(record.name.clone()));
        }
        self.record_issued(record.token.get())?;
        let entry = &mut self.table.entries[own];
        (entry.mode, entry.since, entry.token) =
            (record.mode, record.since, Some(HeldToken::new(record.token)));
        if let Some(metadata) = &record.metadata {
            self.table.set_metadata(own, metadata);
        }
        Ok(())
    }

    /// The same locks become void again: those of them that are still there.
    fn replay_void(&mut self, owner: OwnerId, which: &VoidLocks) -> Result<(), ReplayError> {
        let party = *self.table.owners.get(&owner).ok_or(ReplayError::UnknownOwner(owner))?;
        match which {
            VoidLocks::OfEnded(reason) => {
                self.end_owner_in_parts(party, *reason);
                return Ok(());
            }
            VoidLocks::AllBut { up_to, spared } => {
                let spared: HashSet<&NameBuf> = spared.iter().collect();
                let table = &self.table;
                let all = table.parties[party].all.iter::<ByParty>(&table.entries);
                let is_meant = |slot: &u32| {
                    let entry = &table.entries[*slot];
                    entry.held_token() <= *up_to && !spared.contains(&table.names[entry.name].name)
                };
                let slots: Vec<u32> = all.filter(is_meant).collect();
                slots.into_iter().for_each(|slot| self.table.make_void(party, slot));
            }
            VoidLocks::These(locks) => {
                for (name, token) in locks {
                    if let Some(slot) = self.own_lock(party, name.as_name(), Some(*token)) {
                        self.table.make_void(party, slot);
                    }
                }
            }
        }
        self.begin_sweep(party);
        Ok(())
    }

    fn replay_claim(&mut self, now: Instant, record: &ClaimRecord) -> Result<(), ReplayError> {
        let found = self.table.find_name(record.name.as_name());
        if found.is_some() || self.assignments.contains_key(&record.name) {
            return Err(ReplayError::Excluded(record.name.clone()));
        }
        let number = record.token.get();
        self.record_issued(number)?;
        let name = self.name_slot_of(&record.name);
        self.add_claim(name, record, renewed_lease_end(now, record.ttl_ms, number));
        Ok(())
    }

    fn replay_assignment(&mut self, now: Instant, record: &AssignmentRecord) -> Result<(), ReplayError> {
        self.record_issued(record.token.get())?;
        if let Some(slot) = self.claim_with_token(record.name.as_name(), record.token) {
            self.remove_and_process(now.into(), slot);
        }
        self.assignments.insert(record.name.clone(), StoredAssignment::new(record));
        Ok(())
    }

    fn claim_with_token(&self, name: Name<'_>, token: FencingToken) -> Option<u32> {
        let (slot, _) = self.claim_on(self.table.find_name(name)?)?;
        (self.table.entries[slot].held_token() == token).then_some(slot)
    }

    fn name_slot_of(&mut self, name: &NameBuf) -> u32 {
        self.table.name_slot(name.as_name(), u32::MAX).expect("there is no bound")
    }

    fn record_issued(&mut self, number: u64) -> Result<(), ReplayError> {
        check_numbers_left(number)?;
        self.last_token = self.last_token.max(number);
        Ok(())
    }
}

/// The stored numbers may be damaged.
fn check_numbers_left(number: u64) -> Result<(), ReplayError> {
    if number < FencingToken::LIMIT - 1 { Ok(()) } else { Err(ReplayError::NoNumberLeft(number)) }
}

/// The end of a lease that runs anew: its whole length and up to a tenth more, as the number has it.
fn renewed_lease_end(now: Instant, length_ms: u64, number: u64) -> Instant {
    // The finaliser of SplitMix64: neighbouring numbers land far apart.
    let mut hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let share = (u128::from(hash ^ (hash >> 31)) * u128::from(length_ms / 10)) >> 64;
    // A share of a length fits into what a length fits into.
    now.plus_millis(length_ms).plus_millis(share as u64)
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::SecretSeed;

    #[test]
    fn a_fact_after_which_no_number_is_left_is_refused() {
        let (since, last) = (Instant::default(), FencingToken::LIMIT - 1);
        let owner = |number| OwnerRecord {
            owner: OwnerId::new(number),
            label: "".into(),
            metadata: None,
            ttl_ms: 1,
            since,
            ends: None,
            seed: SecretSeed(0),
        };
        let name = NameBuf::new("a").expect("it begins with no hyphen");
        let assigned = AssignmentRecord {
            name,
            claimant: "".into(),
            token: FencingToken::new(last),
            since,
            seed: SecretSeed(0),
        };
        let facts = [
            (Change::TokensReserved { up_to: last }, last),
            (Change::OwnerOpened(owner(last)), last),
            (Change::OwnerOpened(owner(u64::MAX)), u64::MAX),
            (Change::Assigned(assigned), last),
        ];
        let mut manager = LockManager::new(FixedState::default());
        for (fact, number) in facts {
            assert_eq!(manager.replay(since, &fact), Err(ReplayError::NoNumberLeft(number)), "{fact:?}");
        }
        assert_eq!(
            (manager.owners().count(), manager.assignments().count(), manager.last_token()),
            (0, 0, 0)
        );
        manager.replay(since, &Change::TokensReserved { up_to: last - 1 }).expect("one number is left");
    }
}
