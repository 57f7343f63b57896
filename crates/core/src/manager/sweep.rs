//! The sweep: void locks end one by one, each in a change of its own, so that no command and no commit has to
//! end more of them at once than fit.
//!
//! ```text
//!   an owner ends, or gives up many locks
//!     └─▶ LocksVoided ─▶ Unlocked, Unlocked, … ─▶ OwnerEnded or LocksSwept
//!                           ▲
//!                           └── a command that asks for the name of one ends it first
//! ```

use std::hash::BuildHasher;

use super::LockManager;
use super::tables::list::NONE;
use super::tables::table::Tenure;
use crate::{Change, LockEnd, Mode, Name, Now};

impl<S: BuildHasher> LockManager<S> {
    /// Whether there is something to [`sweep`](Self::sweep).
    #[inline]
    pub fn has_void_locks(&self) -> bool {
        !self.sweeps.is_empty()
    }

    /// How many locks are void.
    pub fn void_locks(&self) -> usize {
        self.table.void_locks
    }

    /// Ends at most `most` void locks, and processes the queues of their names. Returns whether that was all.
    /// The owners take turns.
    pub fn sweep(&mut self, now: impl Into<Now>, most: usize) -> bool {
        let now = now.into();
        let mut swept = 0;
        while swept < most
            && let Some(party) = self.next_to_sweep()
        {
            let slot = self.table.owner(party).void.locks.head;
            if slot == NONE {
                self.finish_sweep(now, party);
                continue;
            }
            let name = self.table.entries[slot].name;
            self.end_turn(party);
            self.begin_sweep(party);
            self.end_void_lock(now, slot);
            self.process(now, name);
            swept += 1;
        }
        !self.has_void_locks()
    }

    fn next_to_sweep(&self) -> Option<u32> {
        let owner = self.sweeps.first_key_value().map(|(_, owner)| *owner)?;
        Some(self.table.any_owner(owner).expect("an owner in the sweep is there until it is swept"))
    }

    /// The owner has void locks now: it gets its turn.
    pub(super) fn begin_sweep(&mut self, party: u32) {
        let owner = self.table.owner(party).id;
        let turn = self.table.next_serial();
        let turn = *self.table.void_list_mut(party).turn.get_or_insert(turn);
        self.sweeps.insert(turn, owner);
    }

    /// A void lock ends; with the last one the sweep of its owner. Its name is still to be processed.
    pub(super) fn end_void_lock(&mut self, now: Now, slot: u32) {
        debug_assert!(self.table.is_void(slot));
        let Tenure::Owner(party) = self.table.entries[slot].tenure() else { return };
        let ended = self.table.owner(party).void.ended;
        self.end_lock(now, slot, ended.map_or(LockEnd::Released, LockEnd::WithOwner));
        if self.table.owner(party).void.locks.is_empty() {
            self.finish_sweep(now, party);
        }
    }

    fn finish_sweep(&mut self, now: Now, party: u32) {
        let (owner, ended) = (self.table.owner(party).id, self.table.owner(party).void.ended);
        self.end_turn(party);
        match ended {
            None => self.change(Change::LocksSwept { owner }),
            Some(reason) => {
                self.remove_all_of(party);
                self.change(Change::OwnerEnded { owner, names: Vec::new(), reason, at: now.tick() });
            }
        }
    }

    /// The owner has no void locks any more, or ends with them.
    pub(super) fn end_turn(&mut self, party: u32) {
        if let Some(turn) = self.table.void_list_mut(party).turn.take() {
            self.sweeps.remove(&turn);
        }
    }

    /// Whether something is done in parts at present, so that a name may have to [`catch_up`](Self::catch_up)
    /// before a command that asks for it.
    #[inline]
    pub(super) fn is_done_in_parts(&self) -> bool {
        self.has_void_locks() || self.unsettled.is_some()
    }

    /// Does for the names what was still to be done in parts: a command asks for locks of these modes on
    /// them. Of the void locks those end that are in the way, as many as may end at once.
    #[cold]
    pub(super) fn catch_up(&mut self, now: Now, wanted: &[(Name<'_>, Mode)], asker: Option<u32>) {
        let mut may_end = self.limits.locks_ended_at_once.max(1);
        for &(name, mode) in wanted {
            self.settle_name(now, name);
            if self.has_void_locks() {
                self.make_way(now, name, mode, asker, &mut may_end);
            }
        }
    }

    fn make_way(&mut self, now: Now, name: Name<'_>, mode: Mode, asker: Option<u32>, may_end: &mut usize) {
        let Some(slot) = self.table.find_name(name) else { return };
        let own = asker.and_then(|party| self.table.own_entry(party, slot));
        let mut has_ended = asker.is_some_and(|party| self.end_own_void_lock(now, party, slot));
        let own = own.filter(|_| !has_ended);
        let mut next = if self.fits(slot, mode) { NONE } else { self.table.names[slot].held.head };
        // The first lock that stands keeps the name anyway.
        while next != NONE && (Some(next) == own || self.table.is_void(next)) {
            let lock = next;
            next = self.table.entries[lock].by_name.next;
            if self.table.is_void(lock) {
                if *may_end == 0 {
                    break;
                }
                *may_end -= 1;
                self.end_void_lock(now, lock);
                has_ended = true;
            }
        }
        if has_ended {
            self.process(now, slot);
        }
    }

    fn end_own_void_lock(&mut self, now: Now, party: u32, name: u32) -> bool {
        let own = self.table.own_entry(party, name).filter(|own| self.table.is_void(*own));
        own.map(|own| self.end_void_lock(now, own)).is_some()
    }
}
