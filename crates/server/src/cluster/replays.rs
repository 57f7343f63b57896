//! The requests of other nodes that have come before.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The number that a process has drawn for itself as a sender.
pub(super) type Sender = [u8; 16];

/// How many numbers below the highest one of a sender are still told apart: later ones overtake earlier ones.
const WINDOW: u64 = 8192;

/// So many senders are remembered. Only processes with the secret are.
const SENDERS: usize = 4096;

/// The numbers that have come of each sender.
#[derive(Debug, Default)]
pub(super) struct Replays(Mutex<HashMap<Sender, Window>>);

#[derive(Debug)]
struct Window {
    highest: u64,
    /// A bit for each of the last numbers, at its rest by [`WINDOW`].
    seen: Box<[u64; (WINDOW / 64) as usize]>,
}

impl Replays {
    /// Takes note of a number. False if it has come before, or is so low that it may have.
    pub(super) fn is_new(&self, sender: Sender, number: u64) -> bool {
        let mut senders = self.0.lock();
        if senders.len() >= SENDERS && !senders.contains_key(&sender) {
            return false;
        }
        senders.entry(sender).or_default().is_new(number)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { highest: 0, seen: Box::new([0; (WINDOW / 64) as usize]) }
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
}
