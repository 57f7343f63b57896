//! The requests of other nodes that have come before.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The number that a process has drawn for itself as a sender.
pub(super) type Sender = [u8; 16];

/// How many numbers below the highest one of a sender are still told apart: later ones overtake earlier ones.
const WINDOW: u64 = 8192;

/// So many senders are remembered, of which only processes with the secret are any: then the one is forgotten
/// that has sent nothing for longest, which has ended long ago.
const SENDERS: usize = 4096;

/// The numbers that have come of each sender.
#[derive(Debug, Default)]
pub(super) struct Replays(Mutex<Senders>);

#[derive(Debug, Default)]
struct Senders {
    windows: HashMap<Sender, Window>,
    /// How many numbers have come of all of them.
    count: u64,
}

#[derive(Debug)]
struct Window {
    /// The count of all numbers when its last one came.
    last: u64,
    highest: u64,
    /// A bit for each of the last numbers, at its rest by [`WINDOW`].
    seen: Box<[u64; (WINDOW / 64) as usize]>,
}

impl Replays {
    /// Takes note of a number. False if it has come before, or is so low that it may have.
    pub(super) fn is_new(&self, sender: Sender, number: u64) -> bool {
        let Senders { windows, count } = &mut *self.0.lock();
        *count += 1;
        if windows.len() >= SENDERS && !windows.contains_key(&sender) {
            let oldest = windows.iter().min_by_key(|(_, window)| window.last).map(|(sender, _)| *sender);
            oldest.into_iter().for_each(|oldest| _ = windows.remove(&oldest));
        }
        let window = windows.entry(sender).or_default();
        window.last = *count;
        window.is_new(number)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { last: 0, highest: 0, seen: Box::new([0; (WINDOW / 64) as usize]) }
    }
}

impl Window {
    fn is_new(&mut self, number: u64) -> bool {
        if number + WINDOW <= self.highest {
            return false;
        }
        if number > self.highest {
            // The places between stood for numbers that are too low now.
            let between = (self.highest + 1).max((number + 1).saturating_sub(WINDOW))..=number;
            between.for_each(|number| self.set(number, false));
            self.highest = number;
        }
        let is_new = !self.has(number);
        self.set(number, true);
        is_new
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.seen[word] & bit != 0
    }

    fn set(&mut self, number: u64, seen: bool) {
        let (word, bit) = place(number);
        if seen {
            self.seen[word] |= bit;
        } else {
            self.seen[word] &= !bit;
        }
    }
}

fn place(number: u64) -> (usize, u64) {
    let rest = number % WINDOW;
    ((rest / 64) as usize, 1 << (rest % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_comes_once_in_any_order() {
        let replays = Replays::default();
        let is_new = |number| replays.is_new([0; 16], number);
        assert!(is_new(5) && is_new(3) && is_new(4) && !is_new(5) && !is_new(3));
        assert!(is_new(5 + WINDOW) && !is_new(5), "too low");
        assert!(is_new(6) && !is_new(6) && !is_new(5 + WINDOW));
        assert!(is_new(10 * WINDOW) && is_new(9 * WINDOW + 1) && !is_new(9 * WINDOW));
        assert!(replays.is_new([1; 16], 5), "of another sender");
    }

    #[test]
    fn the_sender_that_was_silent_for_longest_makes_way_for_a_new_one() {
        let replays = Replays::default();
        let sender = |number: usize| (number as u128).to_be_bytes();
        (0..SENDERS).for_each(|number| assert!(replays.is_new(sender(number), 1)));
        assert!(replays.is_new(sender(0), 2) && replays.is_new(sender(SENDERS), 1));
        assert!(!replays.is_new(sender(0), 2) && !replays.is_new(sender(SENDERS), 1), "they are known");
        assert_eq!(replays.0.lock().windows.len(), SENDERS);
    }
}
