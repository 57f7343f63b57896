//! The same commands at the same instants tell the same, byte for byte, however names are hashed.

mod random;

use std::fmt::Write;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use foldhash::fast::FixedState;
use proptest::prelude::*;
use random::{Step, World, steps};

/// Every name has the same hash.
#[derive(Default)]
struct Constant;

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        7
    }
    fn write(&mut self, _: &[u8]) {}
}

/// Everything that can be observed.
fn log(steps: &[Step], hasher: impl BuildHasher) -> String {
    let mut world = World::new(hasher);
    let mut log = String::new();
    for step in steps {
        let told = world.play(step);
        let wakes = world.manager.next_timeout();
        writeln!(log, "{told:?} {wakes:?} {:?}", world.snapshot()).expect("a string takes everything");
    }
    log
}

proptest! {
    #[test]
    fn hashing_shows_in_nothing_that_is_told(steps in steps(), seed: u64) {
        let expected = log(&steps, FixedState::with_seed(seed));
        prop_assert_eq!(&log(&steps, FixedState::with_seed(seed)), &expected);
        prop_assert_eq!(&log(&steps, FixedState::with_seed(!seed)), &expected);
        prop_assert_eq!(&log(&steps, RandomState::new()), &expected);
        prop_assert_eq!(&log(&steps, BuildHasherDefault::<Constant>::default()), &expected);
    }
}
