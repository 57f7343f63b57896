//! Offline locks: acquired at once or refused, held by owners, several in one command all or none.
//! <https://martinfowler.com/eaaCatalog/pessimisticOfflineLock.html>

use std::collections::HashSet;
use std::hash::BuildHasher;

use super::LockManager;
use super::tables::list::{ByName, ByParty};
use super::tables::table::{Extras, HeldToken, Tenure};
use super::views::HOLDERS_LOOKED_AT;
use crate::{
    Acquired, Change, Conflict, Discipline, EndCause, FencingToken, GrantToUndo, Instant, LockEnd,
    LockRecord, LossCause, Mode, Name, NewLocks, Now, OwnedLock, OwnerId, Refusal, Unlock, VoidLocks,
};

/// The need of one name of a command.
#[derive(Clone, Copy)]
enum Need {
    /// Nothing: this lock of the owner covers it.
    Covered(u32),
    /// This shared lock of the owner, which has no other holder, becomes exclusive.
    Upgrade(u32),
    /// A lock of its own.
    Fresh,
}

impl<S: BuildHasher> LockManager<S> {
    /// "Acquire lock", for all the names or for none.
    pub(super) fn lock(&mut self, now: Now, new: &NewLocks<'_>) -> Result<Vec<OwnedLock>, Refusal> {
        let party = self.live_owner(now, new.owner).ok_or(Refusal::UnknownOwner)?;
        self.check_locks(new)?;
        let (names, places) = distinct(new.locks);
        for (name, _) in &names {
            self.expire_claim_if_due(now, *name);
        }
        if self.is_done_in_parts() {
            self.catch_up(now, &names, Some(party));
        }
        let needs = self.needs(party, &names)?;
        self.check_capacity(party, &names, &needs)?;
        let mut locks = Vec::with_capacity(names.len());
        for (&(name, mode), need) in names.iter().zip(needs) {
            locks.push(self.acquire(now, party, name, mode, need, new.metadata));
        }
        self.touch(now, party);
        Ok(places.into_iter().map(|place| locks[place]).collect())
    }

    /// "Release lock": locks that do not match stay. Returns how many were released.
    pub(super) fn unlock(&mut self, now: Now, owner: OwnerId, locks: Unlock<'_>) -> usize {
        let Some(party) = self.live_owner(now, owner) else { return 0 };
        let count = match locks {
            Unlock::These(locks) => self.unlock_these(now, party, locks),
            Unlock::AllBut(spared) => self.unlock_all_but(now, party, spared),
        };
        self.touch(now, party);
        self.process_touched(now);
        count
    }

    /// Takes back the grants of a failed step. Returns how many locks that changed.
    pub(super) fn undo(&mut self, now: Now, owner: OwnerId, locks: &[GrantToUndo<'_>]) -> usize {
        let Some(party) = self.live_owner(now, owner) else { return 0 };
        let mut count = 0;
        for lock in locks {
            let own = self.own_lock(party, lock.name, Some(lock.token));
            let Some(slot) = own.filter(|slot| !self.others_rely_on(*slot, lock)) else { continue };
            count += match lock.how {
                Acquired::AlreadyHeld => 0,
                Acquired::Fresh => {
                    self.release(now, slot, LockEnd::Undone);
                    1
                }
                Acquired::Upgraded => usize::from(self.downgrade(now, slot)),
            };
        }
        self.touch(now, party);
        self.process_touched(now);
        count
    }

    /// An offline lock ends. Its name is still to be processed.
    pub(super) fn end_lock(&mut self, now: Now, slot: u32, reason: LockEnd) {
        let Tenure::Owner(party) = self.table.entries[slot].tenure() else { return };
        let entry = &self.table.entries[slot];
        let name = self.table.names[entry.name].name.clone();
        let (owner, token) = (self.table.owner(party).id, entry.held_token());
        if let Some(cause) = LossCause::of_lock(&reason) {
            self.table.tally_loss(Discipline::Offline, cause, 1);
        }
        self.table.ends_for(|| EndCause::from(&reason));
        self.remove(slot);
        self.change(Change::Unlocked { name, owner, token, reason, at: now.tick() });
    }

    /// A new entry for a lock of the owner, in no list of its name yet. The caller gives it its token.
    pub(super) fn add_lock(
        &mut self,
        since: Instant,
        party: u32,
        name: u32,
        lock: (Mode, Option<&str>),
    ) -> u32 {
        let (mode, metadata) = lock;
        let extras = metadata.map(|text| Extras { metadata: Some(text.into()), ..Extras::default() });
        self.table.add_entry(since, name, Tenure::Owner(party), mode, extras).slot
    }

    pub(super) fn lock_record(&self, slot: u32) -> LockRecord {
        let entry = &self.table.entries[slot];
        let Tenure::Owner(party) = entry.tenure() else { unreachable!("offline locks are of owners alone") };
        LockRecord {
            name: self.table.names[entry.name].name.clone(),
            owner: self.table.owner(party).id,
            mode: entry.mode,
            token: entry.held_token(),
            since: entry.since,
            metadata: self.table.extras_of(entry).and_then(|extras| extras.metadata.clone()),
        }
    }

    /// Whether another step has got the answer that the owner has the lock that is to be taken back.
    fn others_rely_on(&self, slot: u32, lock: &GrantToUndo<'_>) -> bool {
        let entry = &self.table.entries[slot];
        let repeats = match lock.how {
            Acquired::Upgraded => entry.repeats,
            Acquired::Fresh | Acquired::AlreadyHeld => {
                entry.repeats.saturating_add(entry.repeats_before_upgrade)
            }
        };
        repeats == u8::MAX || u32::from(repeats) > lock.repeats
    }

    fn release(&mut self, now: Now, slot: u32, reason: LockEnd) {
        self.touched.push(self.table.entries[slot].name);
        self.end_lock(now, slot, reason);
    }

    fn check_locks(&self, new: &NewLocks<'_>) -> Result<(), Refusal> {
        let limits = self.limits;
        if new.locks.len() > limits.locks_per_command {
            return Err(Refusal::TooManyLocksAtOnce { limit: limits.locks_per_command });
        }
        new.locks.iter().try_for_each(|(name, _)| limits.check_name(*name))?;
        limits.check_metadata(new.metadata)?;
        self.check_open()
    }

    /// The need of each name, unless one of them is not available.
    fn needs(&self, party: u32, names: &[(Name<'_>, Mode)]) -> Result<Vec<Need>, Refusal> {
        let mut needs = Vec::with_capacity(names.len());
        let mut conflicts = Vec::new();
        for &(name, mode) in names {
            match self.need(party, name, mode) {
                Ok(need) => needs.push(need),
                Err(conflict) => conflicts.push(conflict),
            }
        }
        if conflicts.is_empty() { Ok(needs) } else { Err(Refusal::Conflict(conflicts)) }
    }

    /// "Has lock" comes first; then the sole reader may become the writer; all others request like
    /// `ifAvailable`.
    fn need(&self, party: u32, name: Name<'_>, mode: Mode) -> Result<Need, Conflict> {
        let Some(slot) = self.table.find_name(name) else { return Ok(Need::Fresh) };
        let table = &self.table;
        match table.own_lock(party, slot) {
            Some(own) if self.covers(own, mode) => return Ok(Need::Covered(own)),
            Some(own) if table.names[slot].held.is_only(own) => return Ok(Need::Upgrade(own)),
            Some(_) => {}
            None if self.is_free(slot, mode) => return Ok(Need::Fresh),
            None => {}
        }
        let others = table.names[slot].held.iter::<ByName>(&table.entries).take(HOLDERS_LOOKED_AT);
        let is_other =
            |slot: &u32| table.entries[*slot].tenure() != Tenure::Owner(party) && !table.is_void(*slot);
        let others = others.filter(is_other);
        let holders = others.take(Refusal::HOLDERS_SHOWN).map(|other| self.holder(&table.entries[other]));
        let queued = table.names[slot].queued;
        Err(Conflict { name: name.to_buf(), holders: holders.collect(), queued })
    }

    /// Whether a held lock covers that mode.
    pub(super) fn covers(&self, own: u32, mode: Mode) -> bool {
        mode == Mode::Shared || self.table.entries[own].mode == Mode::Exclusive
    }

    fn check_capacity(&self, party: u32, names: &[(Name<'_>, Mode)], needs: &[Need]) -> Result<(), Refusal> {
        let limits = self.limits;
        let fresh = needs.iter().filter(|need| matches!(need, Need::Fresh)).count();
        if self.table.locks_of_owner(party) as usize + fresh > limits.locks_per_owner as usize {
            return Err(Refusal::TooManyLocks { limit: limits.locks_per_owner });
        }
        if fresh > 0 {
            self.check_entries(fresh)?;
        }
        let unknown = names.iter().filter(|(name, _)| self.table.find_name(*name).is_none()).count();
        if unknown > 0 && self.table.names.len() + unknown > limits.names as usize {
            return Err(Refusal::TooManyNames { limit: limits.names });
        }
        Ok(())
    }

    fn acquire(
        &mut self,
        now: Now,
        party: u32,
        name: Name<'_>,
        mode: Mode,
        need: Need,
        metadata: Option<&str>,
    ) -> OwnedLock {
        let (slot, how) = match need {
            Need::Covered(slot) => {
                let repeats = &mut self.table.entries[slot].repeats;
                *repeats = repeats.saturating_add(1);
                (slot, Acquired::AlreadyHeld)
            }
            Need::Upgrade(slot) => {
                self.upgrade(now, slot, metadata);
                (slot, Acquired::Upgraded)
            }
            Need::Fresh => {
                let name = self.table.name_slot(name, u32::MAX).expect("there is no bound");
                let slot = self.add_lock(now.tick(), party, name, (mode, metadata));
                self.grant(now, name, slot);
                self.change(Change::Locked(self.lock_record(slot)));
                (slot, Acquired::Fresh)
            }
        };
        let entry = &self.table.entries[slot];
        OwnedLock { token: entry.held_token(), mode: entry.mode, how }
    }

    /// The sole holder passes the waiting requests; apart from its place its lock is a new one.
    fn upgrade(&mut self, now: Now, slot: u32, metadata: Option<&str>) {
        let token = FencingToken::new(self.next_number());
        self.table.changes_mode(slot, EndCause::Upgraded);
        let entry = &mut self.table.entries[slot];
        entry.mode = Mode::Exclusive;
        entry.token = Some(HeldToken::new(token));
        entry.since = now.tick();
        entry.count_upgraded_anew();
        if let Some(metadata) = metadata {
            self.table.set_metadata(slot, metadata);
        }
        self.table.has_changed_mode(slot);
        self.change(Change::Locked(self.lock_record(slot)));
    }

    /// An upgraded lock is shared again, unless it already is; waiting readers are still to be granted.
    fn downgrade(&mut self, now: Now, slot: u32) -> bool {
        if self.table.entries[slot].mode == Mode::Shared {
            return false;
        }
        self.table.changes_mode(slot, EndCause::Downgraded);
        let entry = &mut self.table.entries[slot];
        entry.mode = Mode::Shared;
        entry.since = now.tick();
        self.touched.push(entry.name);
        self.table.has_changed_mode(slot);
        self.change(Change::Locked(self.lock_record(slot)));
        true
    }

    fn unlock_these(&mut self, now: Now, party: u32, locks: &[(Name<'_>, Option<FencingToken>)]) -> usize {
        let mut seen = HashSet::new();
        let own = locks.iter().filter_map(|(name, token)| self.own_lock(party, *name, *token));
        let slots: Vec<u32> = own.filter(|slot| seen.insert(*slot)).collect();
        if slots.len() > self.limits.locks_ended_at_once {
            self.void_these(now, party, &slots);
        } else {
            slots.iter().for_each(|slot| self.release(now, *slot, LockEnd::Released));
        }
        slots.len()
    }

    fn void_these(&mut self, now: Now, party: u32, slots: &[u32]) {
        let described = |slot: &u32| {
            let entry = &self.table.entries[*slot];
            (self.table.names[entry.name].name.clone(), entry.held_token())
        };
        let which = VoidLocks::These(slots.iter().map(described).collect());
        slots.iter().for_each(|slot| self.table.make_void(party, *slot));
        self.locks_voided(now, party, which);
    }

    fn unlock_all_but(&mut self, now: Now, party: u32, spared: &[Name<'_>]) -> usize {
        let mut stay = HashSet::new();
        let own = spared.iter().filter_map(|name| self.own_lock(party, *name, None));
        let slots: Vec<u32> = own.filter(|slot| stay.insert(*slot)).collect();
        let count = self.table.locks_of_owner(party) as usize - slots.len();
        if count > self.limits.locks_ended_at_once {
            let name_of = |slot: &u32| self.table.names[self.table.entries[*slot].name].name.clone();
            let spared = slots.iter().map(name_of).collect();
            let which = VoidLocks::AllBut { up_to: FencingToken::new(self.last_token), spared };
            self.table.make_all_void_but(party, slots);
            self.locks_voided(now, party, which);
            return count;
        }
        let all = self.table.parties[party].all.iter::<ByParty>(&self.table.entries);
        let ended: Vec<u32> = all.filter(|slot| !stay.contains(slot)).collect();
        ended.iter().for_each(|slot| self.release(now, *slot, LockEnd::Released));
        count
    }

    fn locks_voided(&mut self, now: Now, party: u32, which: VoidLocks) {
        self.begin_sweep(party);
        self.change(Change::LocksVoided { owner: self.table.owner(party).id, which, at: now.tick() });
    }

    pub(super) fn own_lock(&self, party: u32, name: Name<'_>, token: Option<FencingToken>) -> Option<u32> {
        let slot = self.table.own_lock(party, self.table.find_name(name)?)?;
        token.is_none_or(|token| self.table.entries[slot].held_token() == token).then_some(slot)
    }
}

/// Each name once, with its strongest mode, in the order of first mention; and for each requested lock, where
/// its name is.
fn distinct<'a>(locks: &[(Name<'a>, Mode)]) -> (Vec<(Name<'a>, Mode)>, Vec<usize>) {
    let mut names: Vec<(Name<'a>, Mode)> = Vec::with_capacity(locks.len());
    let mut places = Vec::with_capacity(locks.len());
    for &(name, mode) in locks {
        // A linear search is the fastest for so few names.
        let place = names.iter().position(|(other, _)| *other == name).unwrap_or(names.len());
        match names.get_mut(place) {
            Some((_, strongest)) if mode == Mode::Exclusive => *strongest = mode,
            Some(_) => {}
            None => names.push((name, mode)),
        }
        places.push(place);
    }
    (names, places)
}
