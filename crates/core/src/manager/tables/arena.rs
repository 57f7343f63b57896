//! A slab that gives its memory back, and knows how much of it is in use.

use std::ops::{Index, IndexMut};

use slab::Slab;

/// Values in numbered slots. Once seven eighths of the slots are unused the memory is returned, if survivors
/// at the end allow half of it or more, at a cost that the removals since have paid for; after that, each
/// time when half of the survivors have gone.
#[derive(Clone, Debug)]
pub(crate) struct Arena<T> {
    slots: Slab<T>,
    /// The memory of the values beyond their slots.
    heap_bytes: usize,
    removed_since_shrinking: usize,
    /// How many values survived the last attempt.
    survivors: usize,
}

/// How many unused slots are retained.
pub(crate) const KEPT: usize = 1024;

/// The memory of a value beyond its slot. The weight does not change while the value is in an arena.
pub(crate) trait Weigh {
    fn heap_bytes(&self) -> usize;
}

impl<T: Weigh> Arena<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Slab::new(), heap_bytes: 0, removed_since_shrinking: 0, survivors: 0 }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.heap_bytes += value.heap_bytes();
        // Four billion entries would take more than 200 GB.
        self.slots.insert(value) as u32
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) -> T {
        let value = self.slots.remove(slot as usize);
        self.heap_bytes -= value.heap_bytes();
        self.removed_since_shrinking += 1;
        if self.slots.len() * 8 < self.slots.capacity() && self.slots.capacity() > KEPT {
            self.shrink();
        }
        value
    }

    #[cold]
    fn shrink(&mut self) {
        if self.slots.is_empty() {
            *self = Self::new();
            return;
        }
        let is_paid = self.removed_since_shrinking * 2 >= self.slots.capacity();
        // Halving is too rare to need payment.
        if is_paid || self.slots.len() * 2 <= self.survivors {
            self.survivors = self.slots.len();
            // The look passes over the slots behind the last value; to shrink, over all.
            let end = self.slots.iter().next_back().map_or(0, |(slot, _)| slot + 1);
            if end * 2 <= self.slots.capacity() {
                self.slots.shrink_to_fit();
            }
        }
        if is_paid {
            self.removed_since_shrinking = 0;
        }
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)
    }

    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.slots.contains(slot as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The memory of the values and of the slots: those in use, and of the retained slots beyond [`KEPT`] at
    /// least half. Reserve for growth by as much again is not charged.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let (used, there) = (self.slots.len(), self.slots.capacity());
        let slots = if there > KEPT { used.max(there / 2) } else { used };
        slots * size_of::<T>() + self.heap_bytes
    }

    /// The memory of the values beyond their slots.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All slots with values are below.
    pub(crate) fn end(&self) -> u32 {
        self.slots.capacity() as u32
    }

    /// The values with their slots, in that order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().map(|(slot, value)| (slot as u32, value))
    }
}

impl<T> Index<u32> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for i32 {
        fn heap_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn an_emptied_arena_keeps_no_memory() {
        let mut arena = Arena::new();
        let slots: Vec<u32> = (0..100_000).map(|n| arena.insert(n)).collect();
        slots.iter().for_each(|slot| _ = arena.remove(*slot));
        assert_eq!(arena.slots.capacity(), 0);
    }

    #[test]
    fn values_that_go_in_the_order_in_which_they_came_leave_no_memory_to_a_survivor() {
        let mut arena = Arena::new();
        let slots: Vec<u32> = (0..100_000).map(|n| arena.insert(n)).collect();
        slots[1..].iter().for_each(|slot| _ = arena.remove(*slot));
        assert!(arena.slots.capacity() <= KEPT, "{} slots kept for one value", arena.slots.capacity());
    }

    #[test]
    fn slots_that_a_survivor_pins_count_and_no_value_adds_more_than_its_slot() {
        let mut arena = Arena::new();
        let mut slots = Vec::new();
        for value in 0..100_000 {
            let before = arena.bytes();
            slots.push(arena.insert(value));
            assert!(arena.bytes() <= before + size_of::<i32>(), "{value}");
        }
        let full = arena.bytes();
        slots[..99_999].iter().for_each(|slot| _ = arena.remove(*slot));
        assert!(arena.bytes() * 2 >= full, "{} of {full} bytes", arena.bytes());
    }

    #[test]
    fn a_survivor_at_the_start_pins_nothing_for_long() {
        let mut arena = Arena::new();
        let survivor = arena.insert(0);
        let slots: Vec<u32> = (0..100_000).map(|n| arena.insert(n)).collect();
        slots.iter().for_each(|slot| _ = arena.remove(*slot));
        for _ in 0..100_000 {
            let slot = arena.insert(1);
            arena.remove(slot);
        }
        assert!(arena.slots.capacity() <= KEPT, "{} slots kept for one value", arena.slots.capacity());
        assert_eq!(arena[survivor], 0);
    }
}
