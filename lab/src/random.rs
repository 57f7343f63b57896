//! Random numbers that a seed repeats, on every machine and in every version; or choices that somebody else has made.

/// Numbers of SplitMix64, or the bytes of a fuzzer.
#[derive(Clone, Debug)]
pub(crate) struct Random(Source);

#[derive(Clone, Debug)]
enum Source {
    Seed(u64),
    /// What is left of them; where they have run out, every number is 0.
    Bytes(std::vec::IntoIter<u8>),
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Source::Seed(seed))
    }

    /// Small choices take one byte each, so that a changed byte is a changed choice.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self(Source::Bytes(Vec::from(bytes).into_iter()))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let Source::Seed(state) = &mut self.0 else { return self.number(8) };
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0. The bias is that of 64 bits against a small number: none that matters.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let number = match self.0 {
            Source::Seed(_) => self.next(),
            Source::Bytes(_) => self.number(if bound <= 256 { 1 } else { 4 }),
        };
        (number % bound as u64) as usize
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.below(from.len())])
    }

    /// Whether there were bytes, and they have run out.
    pub(crate) fn is_spent(&self) -> bool {
        matches!(&self.0, Source::Bytes(left) if left.len() == 0)
    }

    fn number(&mut self, bytes: usize) -> u64 {
        let Source::Bytes(left) = &mut self.0 else { return 0 };
        left.take(bytes).fold(0, |number, byte| number << 8 | u64::from(byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_numbers_of_splitmix64() {
        let mut random = Random::new(0);
        assert_eq!([random.next(), random.next()], [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4]);
        assert!(!random.is_spent());
    }

    #[test]
    fn bytes_are_choices_until_they_have_run_out() {
        let mut random = Random::of_bytes(&[7, 0, 0, 1, 2, 99]);
        assert_eq!((random.below(5), random.below(1000)), (2, 258));
        assert!(!random.is_spent() && !random.percent(99) && random.is_spent());
        assert_eq!((random.next(), random.below(3)), (0, 0));
    }
}
