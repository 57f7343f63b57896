//! Looks at parts of a manager: one name, some owners.

use std::hash::BuildHasher;
use std::ops::Bound;

use super::super::LockManager;
use super::super::tables::list::ByName;
use crate::{AgentId, LockState, Name, OwnerId, OwnerView, Snapshot, SnapshotEntry};

impl<S: BuildHasher> LockManager<S> {
    /// The part of a snapshot that is about that name. O(holders and requests of the name).
    pub fn snapshot_of(&self, name: Name<'_>) -> Snapshot {
        self.table.find_name(name).map(|slot| self.snapshot_of_slot(slot)).unwrap_or_default()
    }

    /// The approximate upper bound of the memory of [`snapshot_of`](Self::snapshot_of), as
    /// [`bytes_of_snapshot`](Self::bytes_of_snapshot) counts it. O(holders and requests of the name).
    pub fn bytes_of_snapshot_of(&self, name: Name<'_>) -> usize {
        let Some(slot) = self.table.find_name(name) else { return 0 };
        let each = size_of::<SnapshotEntry>() + self.limits.label_bytes;
        self.entries_of(slot).map(|entry| each + self.metadata_of(entry).map_or(0, str::len)).sum()
    }

    /// How many holders and requests the name has. O(that).
    pub fn count_of(&self, name: Name<'_>) -> usize {
        self.table.find_name(name).map_or(0, |slot| self.entries_of(slot).count())
    }

    /// The owners that live and have a number above `after`, oldest first.
    pub fn owners_after(&self, after: Option<OwnerId>) -> impl Iterator<Item = OwnerView<'_>> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let owners = self.table.owners.range((start, Bound::Unbounded));
        owners.map(|(_, party)| self.owner_view(*party))
    }

    /// The label of the agent, how many locks it holds, and how many requests of it wait, if it lives. O(1).
    pub fn counts_of(&self, agent: AgentId) -> Option<(&str, usize, usize)> {
        let party = self.table.parties.get(agent.slot).filter(|party| party.serial == agent.serial)?;
        Some((&party.label, party.held as usize, (party.count - party.held) as usize))
    }

    pub(super) fn snapshot_of_slot(&self, name: u32) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.add_to_snapshot(name, &mut snapshot);
        snapshot
    }

    /// What is queued and held under the name, void locks left out.
    pub(super) fn add_to_snapshot(&self, name: u32, snapshot: &mut Snapshot) {
        let queue = self.table.names[name].queue.iter::<ByName>(&self.table.entries);
        for (place, slot) in (1..).zip(queue) {
            snapshot.pending.push(self.describe(slot, LockState::Pending { place }));
        }
        for slot in self.holders_in_order(name) {
            let token = self.table.entries[slot].held_token();
            snapshot.held.push(self.describe(slot, LockState::Held(token)));
        }
    }

    fn entries_of(&self, name: u32) -> impl Iterator<Item = u32> + '_ {
        let queue = self.table.names[name].queue.iter::<ByName>(&self.table.entries);
        self.holders_in_order(name).chain(queue)
    }

    fn metadata_of(&self, slot: u32) -> Option<&str> {
        self.metadata(&self.table.entries[slot])
    }
}
