//! The ends of many locks at once, which the pattern does not know: the rows are marked as
//! void, count for no owner from then on, and are deleted one by one.

use lockhouse_core::{Change, Instant, LockEnd, Mode, Name, NameBuf, OwnerEnd, OwnerId, VoidLocks};

use super::Literal;
use super::offline::{Row, unlocked};

impl Literal {
    /// Marks these rows of the owner, in this order, and gives the owner its turn.
    pub(super) fn make_void(&mut self, owner: OwnerId, names: &[NameBuf]) {
        for name in names {
            let voided = self.birth();
            if let Some(at) = self.has_lock(name, owner) {
                self.rows[at].voided = Some(voided);
            }
        }
        if !self.turns.iter().any(|(_, id)| *id == owner) {
            let began = self.birth();
            self.turns.push((began, owner));
        }
    }

    /// Ends the owner, and leaves its rows to the sweep.
    pub(super) fn end_in_parts(&mut self, now: Instant, owner: OwnerId, reason: OwnerEnd) {
        let live = self.rows.iter().filter(|row| row.owner == owner && row.voided.is_none());
        let names: Vec<NameBuf> = live.map(|row| row.name.clone()).collect();
        self.make_void(owner, &names);
        self.ended.push((owner, reason));
        self.change(Change::LocksVoided { owner, which: VoidLocks::OfEnded(reason), at: now });
    }

    /// Deletes at most so many marked rows, of the owners in turn, those that were marked first before the
    /// others.
    pub(in crate::oracle) fn sweep(&mut self, now: Instant, most: usize) {
        self.came = now;
        for _ in 0..most {
            let Some((_, owner)) = self.turns.first().copied() else { return };
            let of_owner = self.rows.iter().filter(|row| row.owner == owner && row.voided.is_some());
            let Some(next) = of_owner.min_by_key(|row| row.voided).cloned() else { return };
            // The owners take turns.
            self.turns.rotate_left(1);
            self.delete_void(now, &next.name, owner);
            self.process_the_lock_request_queue(now, &next.name);
        }
    }

    /// Before a command asks for the name, what was still to be done in parts is done for it: of the void
    /// rows as many as may end yet for the command.
    pub(super) fn catch_up(
        &mut self,
        now: Instant,
        name: Name<'_>,
        mode: Mode,
        asker: Option<OwnerId>,
        may_end: &mut usize,
    ) {
        self.settle_name(now, name);
        self.make_way(now, &name.to_buf(), mode, asker, may_end);
    }

    /// How many void rows may end for one command.
    pub(super) fn most_in_the_way(&self) -> usize {
        self.limits.locks_ended_at_once.max(1)
    }

    /// Marked rows that are in the way are deleted, up to the first holder that stays.
    fn make_way(
        &mut self,
        now: Instant,
        name: &NameBuf,
        mode: Mode,
        asker: Option<OwnerId>,
        may_end: &mut usize,
    ) {
        let mut has_deleted = asker.is_some_and(|owner| self.delete_void(now, name, owner));
        let modes = self.held_modes(name);
        let fits = modes.is_empty() || (mode == Mode::Shared && !modes.contains(&Mode::Exclusive));
        if !fits {
            let web_locks = self.held.iter().filter(|lock| lock.request.name == *name);
            let stays = web_locks.map(|lock| lock.born).chain(self.claims.get(name).map(|claim| claim.born));
            let of_name = || self.rows.iter().filter(|row| row.name == *name);
            let live = of_name().filter(|row| row.voided.is_none() && Some(row.owner) != asker);
            let first = stays.chain(live.map(|row| row.born)).min().unwrap_or(u64::MAX);
            let in_way = of_name().filter(|row| row.voided.is_some() && row.born < first);
            let mut in_way: Vec<Row> = in_way.cloned().collect();
            in_way.sort_by_key(|row| row.born);
            for row in in_way.into_iter().take(*may_end) {
                *may_end -= 1;
                has_deleted |= self.delete_void(now, name, row.owner);
            }
        }
        if has_deleted {
            self.process_the_lock_request_queue(now, name);
        }
    }

    fn delete_void(&mut self, now: Instant, name: &NameBuf, owner: OwnerId) -> bool {
        let is_it = |row: &Row| row.name == *name && row.owner == owner && row.voided.is_some();
        let Some(at) = self.rows.iter().position(is_it) else { return false };
        let row = self.rows.remove(at);
        let changes = self.ends_of_void(now, &row);
        changes.into_iter().for_each(|change| self.change(change));
        true
    }

    /// The changes at the end of a marked row, which is deleted already.
    pub(super) fn ends_of_void(&mut self, now: Instant, row: &Row) -> Vec<Change> {
        let owner = row.owner;
        let ended = self.ended.iter().find(|(id, _)| *id == owner).map(|(_, reason)| *reason);
        let mut changes = vec![unlocked(now, row, ended.map_or(LockEnd::Released, LockEnd::WithOwner))];
        if !self.rows.iter().any(|row| row.owner == owner && row.voided.is_some()) {
            self.turns.retain(|(_, id)| *id != owner);
            self.ended.retain(|(id, _)| *id != owner);
            changes.push(match ended {
                None => Change::LocksSwept { owner },
                Some(reason) => Change::OwnerEnded { owner, names: Vec::new(), reason, at: now },
            });
        }
        changes
    }
}
