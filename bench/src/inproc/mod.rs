//! The suite `inproc`: the library beside keyed locks of other crates.

pub mod crowd;
pub mod memory;
pub mod pairs;
pub mod peers;

use anyhow::Result;

use crate::report::Figure;
use crate::rounds::Bench;

/// Runs the benches whose ids begin with `only`.
pub fn run(rounds: u32, only: &str) -> Result<Vec<Figure>> {
    let timed = [
        pairs::one_name(),
        pairs::many_names(),
        pairs::two_workers(),
        pairs::hand_off(1),
        pairs::hand_off(2),
        crowd::cancel(),
    ];
    let mut figures = Vec::new();
    let wanted = |bench: &Bench<'_>| bench.id.starts_with(only);
    let growth = crowd::growth().into_iter().chain(crowd::growth_beside_peers());
    for bench in timed.into_iter().chain(growth).filter(wanted) {
        figures.extend(bench.run(rounds)?);
    }
    for bench in memory::benches().into_iter().filter(wanted) {
        // No time is measured here: bytes hardly differ from round to round.
        figures.extend(bench.run(rounds.min(3))?);
    }
    Ok(figures)
}

/// A small generator of numbers that only have to be scattered (xorshift), the same for all contenders.
pub(crate) struct Scatter(u64);

impl Scatter {
    pub(crate) fn new(seed: u64) -> Self {
        // Any other odd factor would do: neighbouring seeds must not give neighbouring sequences, nor 0.
        Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for at in (1..values.len()).rev() {
            values.swap(at, self.below(at + 1));
        }
    }
}

/// `count` names of the usual length, in scattered order.
pub(crate) fn names(count: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..count).map(|n| format!("record/{n:07}")).collect();
    Scatter::new(count as u64).shuffle(&mut names);
    names
}
