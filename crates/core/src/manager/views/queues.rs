//! The queues of a manager as data: who is before whom.

use std::hash::BuildHasher;

use super::super::LockManager;
use super::super::tables::list::ByName;
use super::super::tables::table::Tenure;
use crate::{Holder, Instant, Mode, NameBuf, Party, RequestId};

/// A name for which requests wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// The name.
    pub name: NameBuf,
    /// Its holders, oldest first.
    pub held: Vec<QueueEntry>,
    /// The requests that wait, in the order of the queue.
    pub queue: Vec<QueueEntry>,
}

/// A holder, or a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    /// Names the entry as long as it is there, whatever it is of.
    pub entry: RequestId,
    /// Whose it is.
    pub party: Party,
    /// Its mode.
    pub mode: Mode,
    /// The instant of the grant; of the request while it waits.
    pub since: Instant,
}

impl<S: BuildHasher> LockManager<S> {
    /// Adds queues to `queues`, in parts: begins at the slot `from`, which it moves on, and ends after `most`
    /// slots or entries; a queue is taken whole. False once all were looked at.
    pub fn queues(&self, from: &mut u32, most: usize, queues: &mut Vec<QueueView>) -> bool {
        let mut looked = 0;
        while *from < self.table.names.end() && looked < most {
            looked += 1;
            if let Some(name) = self.table.names.get(*from).filter(|name| name.queued > 0) {
                let queue = name.queue.iter::<ByName>(&self.table.entries);
                let view = QueueView {
                    name: name.name.clone(),
                    held: self.holders_in_order(*from).map(|slot| self.standing(slot)).collect(),
                    queue: queue.map(|slot| self.standing(slot)).collect(),
                };
                looked += view.held.len() + view.queue.len();
                queues.push(view);
            }
            *from += 1;
        }
        *from < self.table.names.end()
    }

    /// Who holds the entry, or waits with it, and whether it still waits; none once it has ended.
    pub fn standing_of(&self, entry: RequestId) -> Option<(Holder, bool)> {
        let entry = self.table.entry(entry)?;
        Some((self.holder(entry), entry.token.is_none()))
    }

    fn standing(&self, slot: u32) -> QueueEntry {
        let entry = &self.table.entries[slot];
        let party = match entry.tenure() {
            Tenure::Agent(party) => Party::Agent(self.table.party_id(party)),
            Tenure::Owner(party) => Party::Owner(self.table.owner(party).id),
            Tenure::Ttl(_) => Party::Claimant,
        };
        let id = RequestId { slot, serial: entry.serial };
        QueueEntry { entry: id, party, mode: entry.mode, since: entry.since }
    }
}
