//! Where the state lives: names, entries and parties in slabs, found through one index.
//!
//! ```text
//!   index: hash ─▶ NameSlot ──held──▶ Entry ⇄ Entry           Entry.name ─▶ NameSlot
//!                      └─────queue──▶ Entry ⇄ Entry ⇄ …       Entry.tenure ─▶ Party ──all──▶ Entry ⇄ …
//! ```
//!
//! An entry is a lock request from its arrival on, and the lock after its grant: a grant only moves it from one list to another.

use std::hash::BuildHasher;

use super::arena::{Arena, KEPT};
use super::list::{ByName, ByParty, Link, List, NONE};
use crate::{AgentId, FencingToken, Instant, Limits, Mode, Name, NameBuf, RequestId};
use hashbrown::HashTable;

/// What ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tenure {
    /// The end of the agent in this slot (or of its task, by release).
    Agent(u32),
}

impl Tenure {
    pub(super) fn party(self) -> u32 {
        match self {
            Self::Agent(slot) => slot,
        }
    }
}

/// A lock request, or the lock that it became.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) serial: u64,
    /// `None` while pending.
    pub(super) token: Option<Held>,
    pub(super) since: Instant,
    pub(super) by_name: Link,
    pub(super) by_party: Link,
    pub(super) name: u32,
    pub(super) tenure: Tenure,
    /// Its slot in `extras`, or `NONE`.
    pub(super) extras: u32,
    pub(super) mode: Mode,
}

/// The token of a held lock, in a form whose `Option` takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held(std::num::NonZeroU64);

impl Held {
    pub(super) fn new(token: FencingToken) -> Self {
        Self(std::num::NonZeroU64::new(token.get()).expect("a fencing token is never 0"))
    }

    pub(super) fn token(self) -> FencingToken {
        FencingToken::new(self.0.get())
    }
}

/// What few requests have.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub(super) metadata: Option<Box<str>>,
    pub(super) max_hold_ms: Option<u64>,
    pub(super) expires: Option<Instant>,
}

/// A name with something held or queued.
#[derive(Debug)]
pub(super) struct NameSlot {
    pub(super) name: NameBuf,
    hash: u64,
    pub(super) held: List,
    pub(super) queue: List,
    pub(super) queued: u32,
}

/// An agent.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) serial: u64,
    pub(super) client_id: Box<str>,
    /// Every request and lock of it, oldest request first.
    pub(super) all: List,
    pub(super) count: u32,
    pub(super) lease: Option<Lease>,
}

/// The lease of a party. Renewing moves `ends` alone; the armed deadline catches up when it fires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) length_ms: u64,
    pub(super) ends: Instant,
    pub(super) armed: Instant,
}

/// The whole state of a manager, without its rules.
#[derive(Debug)]
pub(super) struct Table<S> {
    index: HashTable<u32>,
    hasher: S,
    pub(super) names: Arena<NameSlot>,
    pub(super) entries: Arena<Entry>,
    pub(super) extras: Arena<Extras>,
    pub(super) parties: Arena<Party>,
    last_serial: u64,
}

impl<S: BuildHasher> Table<S> {
    pub(super) fn new(hasher: S) -> Self {
        Self {
            index: HashTable::new(),
            hasher,
            names: Arena::new(),
            entries: Arena::new(),
            extras: Arena::new(),
            parties: Arena::new(),
            last_serial: 0,
        }
    }

    /// "Get the lock request queue": finds the name, or makes it; `None` if there are `limit` names already.
    #[inline]
    pub(super) fn name_slot(&mut self, name: Name<'_>, limits: &Limits) -> Option<u32> {
        let hash = self.hasher.hash_one(name.as_wtf8());
        let names = &mut self.names;
        if let Some(&slot) = self.index.find(hash, |&slot| names[slot].name.as_name() == name) {
            return Some(slot);
        }
        if names.len() >= limits.names as usize {
            return None;
        }
        let name = name.to_buf();
        let slot = names.insert(NameSlot { name, hash, held: List::EMPTY, queue: List::EMPTY, queued: 0 });
        self.index.insert_unique(hash, slot, |&slot| names[slot].hash);
        Some(slot)
    }

    /// Forgets a name of which nothing is held and nothing queued.
    #[inline]
    pub(super) fn forget_if_idle(&mut self, name: u32) {
        let slot = &self.names[name];
        if !slot.held.is_empty() || !slot.queue.is_empty() {
            return;
        }
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

    /// A new entry of that party, in no list of its name yet.
    #[inline]
    pub(super) fn add_entry(
        &mut self,
        now: Instant,
        name: u32,
        tenure: Tenure,
        mode: Mode,
        extras: Option<Extras>,
    ) -> RequestId {
        self.last_serial += 1;
        let serial = self.last_serial;
        let extras = extras.map_or(NONE, |extras| self.extras.insert(extras));
        let (by_name, by_party) = (Link::ALONE, Link::ALONE);
        let entry = Entry { serial, token: None, since: now, by_name, by_party, name, tenure, extras, mode };
        let slot = self.entries.insert(entry);
        let party = &mut self.parties[tenure.party()];
        party.all.push_back::<ByParty>(&mut self.entries, slot);
        party.count += 1;
        RequestId { slot, serial }
    }

    /// Takes the entry out of every list and forgets it; its name stays for the caller to process or forget.
    #[inline]
    pub(super) fn remove_entry(&mut self, slot: u32) -> Removed {
        let entry = &self.entries[slot];
        let (name, tenure, token) = (entry.name, entry.tenure, entry.token);
        self.leave_name(name, slot, token.is_some());
        let party = &mut self.parties[tenure.party()];
        party.all.remove::<ByParty>(&mut self.entries, slot);
        party.count -= 1;
        self.drop_entry(slot)
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

    fn drop_entry(&mut self, slot: u32) -> Removed {
        let entry = self.entries.remove(slot);
        let mut expires = None;
        if entry.extras != NONE {
            expires = self.extras.remove(entry.extras).expires;
        }
        Removed { request: RequestId { slot, serial: entry.serial }, name: entry.name, expires }
    }

    /// Removes a party and all its entries, oldest first.
    pub(super) fn remove_party(&mut self, slot: u32, mut removed: impl FnMut(Removed)) -> Party {
        let party = self.parties.remove(slot);
        let mut next = party.all.head;
        while next != NONE {
            let entry = &self.entries[next];
            let (after, name, held) = (entry.by_party.next, entry.name, entry.token.is_some());
            self.leave_name(name, next, held);
            removed(self.drop_entry(next));
            next = after;
        }
        party
    }

    pub(super) fn add_party(&mut self, client_id: &str) -> AgentId {
        self.last_serial += 1;
        let serial = self.last_serial;
        let party = Party { serial, client_id: client_id.into(), all: List::EMPTY, count: 0, lease: None };
        AgentId { slot: self.parties.insert(party), serial }
    }

    /// The party, unless it has ended.
    #[inline]
    pub(super) fn party_mut(&mut self, id: AgentId) -> Option<&mut Party> {
        self.parties.get_mut(id.slot).filter(|party| party.serial == id.serial)
    }

    /// The entry, unless it has ended.
    #[inline]
    pub(super) fn entry(&self, id: RequestId) -> Option<&Entry> {
        self.entries.get(id.slot).filter(|entry| entry.serial == id.serial)
    }

    pub(super) fn requests_of(&self, id: AgentId) -> impl Iterator<Item = RequestId> + '_ {
        let party = self.parties.get(id.slot).filter(|party| party.serial == id.serial);
        let all = party.map_or(List::EMPTY, |party| party.all);
        all.iter::<ByParty>(&self.entries).map(|slot| RequestId { slot, serial: self.entries[slot].serial })
    }

    pub(super) fn agent_of(&self, entry: &Entry) -> AgentId {
        let slot = entry.tenure.party();
        AgentId { slot, serial: self.parties[slot].serial }
    }

    pub(super) fn extras_of(&self, entry: &Entry) -> Option<&Extras> {
        (entry.extras != NONE).then(|| &self.extras[entry.extras])
    }
}

/// An entry that is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removed {
    pub(super) request: RequestId,
    pub(super) name: u32,
    pub(super) expires: Option<Instant>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_at_most_56_bytes_and_a_name_at_most_56() {
        assert!(size_of::<Entry>() <= 56, "{}", size_of::<Entry>());
        assert!(size_of::<NameSlot>() <= 56, "{}", size_of::<NameSlot>());
    }
}
