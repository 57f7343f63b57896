//! Doubly linked lists threaded through the arena of entries: joining, leaving and taking the head cost O(1).

use super::arena::Arena;
use super::table::LockEntry;

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// An entry's place in one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListLink {
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

impl ListLink {
    pub(crate) const ALONE: Self = Self { prev: NONE, next: NONE };
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

/// The choice of the link by which an entry is in a list.
pub(crate) trait By {
    fn link(entry: &LockEntry) -> ListLink;
    fn link_mut(entry: &mut LockEntry) -> &mut ListLink;
}

/// The queue or the held set of a name.
pub(crate) struct ByName;
/// The requests and locks of a party.
pub(crate) struct ByParty;

impl By for ByName {
    #[inline]
    fn link(entry: &LockEntry) -> ListLink {
        entry.by_name
    }
    #[inline]
    fn link_mut(entry: &mut LockEntry) -> &mut ListLink {
        &mut entry.by_name
    }
}

impl By for ByParty {
    #[inline]
    fn link(entry: &LockEntry) -> ListLink {
        entry.by_party
    }
    #[inline]
    fn link_mut(entry: &mut LockEntry) -> &mut ListLink {
        &mut entry.by_party
    }
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NONE
    }

    pub(crate) fn is_only(self, slot: u32) -> bool {
        self.head == slot && self.tail == slot
    }

    #[inline]
    pub(crate) fn push_back<B: By>(&mut self, entries: &mut Arena<LockEntry>, slot: u32) {
        *B::link_mut(&mut entries[slot]) = ListLink { prev: self.tail, next: NONE };
        match self.tail {
            NONE => self.head = slot,
            tail => B::link_mut(&mut entries[tail]).next = slot,
        }
        self.tail = slot;
    }

    #[inline]
    pub(crate) fn remove<B: By>(&mut self, entries: &mut Arena<LockEntry>, slot: u32) {
        let ListLink { prev, next } = B::link(&entries[slot]);
        debug_assert_eq!(prev == NONE, self.head == slot, "only the head has nothing before it");
        debug_assert_eq!(next == NONE, self.tail == slot, "only the tail has nothing behind it");
        match prev {
            NONE => self.head = next,
            prev => B::link_mut(&mut entries[prev]).next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => B::link_mut(&mut entries[next]).prev = prev,
        }
    }

    /// Appends the whole other list.
    pub(crate) fn append<B: By>(&mut self, entries: &mut Arena<LockEntry>, other: Self) {
        if other.is_empty() {
            return;
        }
        match self.tail {
            NONE => self.head = other.head,
            tail => {
                B::link_mut(&mut entries[tail]).next = other.head;
                B::link_mut(&mut entries[other.head]).prev = tail;
            }
        }
        self.tail = other.tail;
    }

    /// The slots from head to tail.
    pub(crate) fn iter<B: By>(self, entries: &Arena<LockEntry>) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors((self.head != NONE).then_some(self.head), move |&slot| {
            let next = B::link(&entries[slot]).next;
            (next != NONE).then_some(next)
        })
    }
}
