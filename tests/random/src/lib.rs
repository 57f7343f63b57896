//! Random numbers that a seed repeats, on every machine, or choices from given bytes; and
//! [random commands](commands) for the core.

pub mod commands;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

/// Numbers of a seed, or the bytes of a fuzzer.
///
/// A seed gives the same numbers on every machine: the generator is named and portable, and nothing of the
/// machine goes into it.
#[derive(Clone, Debug)]
pub struct Random(Source);

#[derive(Clone, Debug)]
enum Source {
    Seed(Xoshiro256PlusPlus),
    /// The bytes that are left; where they have run out, every number is 0.
    Bytes(std::vec::IntoIter<u8>),
}

impl Random {
    /// The numbers of that seed.
    pub fn new(seed: u64) -> Self {
        Self(Source::Seed(Xoshiro256PlusPlus::seed_from_u64(seed)))
    }

    /// The choices that those bytes are. Small choices take one byte each, so that a changed byte is a
    /// changed choice.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Source::Bytes(Vec::from(bytes).into_iter()))
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seed(generator) => generator.next_u64(),
            Source::Bytes(left) => number(left, 8),
        }
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        match &mut self.0 {
            // As 64 bits, which are drawn alike on every machine.
            Source::Seed(generator) => generator.random_range(0..bound as u64) as usize,
            Source::Bytes(left) => (number(left, if bound <= 256 { 1 } else { 4 }) % bound as u64) as usize,
        }
    }

    /// True in this percentage of draws.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of the items, if there is any.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.below(from.len())])
    }

    /// Whether there were bytes, and they have run out.
    pub fn is_spent(&self) -> bool {
        matches!(&self.0, Source::Bytes(left) if left.len() == 0)
    }
}

fn number(bytes: &mut std::vec::IntoIter<u8>, count: usize) -> u64 {
    bytes.take(count).fold(0, |number, byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_on_every_machine_and_in_every_version() {
        let mut random = Random::new(0);
        assert_eq!([random.next_u64(), random.next_u64()], [0x5317_5D61_490B_23DF, 0x61DA_6F3D_C380_D507]);
        assert_eq!([random.below(6), random.below(1000), random.below(1 << 40)], [2, 11, 544555199407]);
        assert!(!random.is_spent());
    }

    #[test]
    fn bytes_are_choices_until_they_have_run_out() {
        let mut random = Random::of_bytes(&[7, 0, 0, 1, 2, 99]);
        assert_eq!((random.below(5), random.below(1000)), (2, 258));
        assert!(!random.is_spent() && !random.percent(99) && random.is_spent());
        assert_eq!((random.next_u64(), random.below(3)), (0, 0));
    }
}
