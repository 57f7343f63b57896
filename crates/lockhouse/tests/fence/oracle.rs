//! The decisions of a fence, in memory.

use std::collections::HashMap;

use lockhouse::fence::Stale;
use lockhouse::{FencingToken, Mode};
use proptest::prelude::*;

/// The two marks of each resource.
#[derive(Default)]
pub(crate) struct Oracle(HashMap<Vec<u8>, (u64, u64)>);

impl Oracle {
    pub(crate) fn pass(&mut self, step: &Step) -> Result<(), Stale> {
        let (any, exclusive) = self.0.entry(step.resource.clone()).or_default();
        let needed = if step.mode == Mode::Exclusive { *any } else { *exclusive };
        if step.token < needed {
            return Err(step.refused(needed));
        }
        *any = step.token.max(*any);
        if step.mode == Mode::Exclusive {
            *exclusive = step.token;
        }
        Ok(())
    }
}

/// A holder comes to the fence.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) resource: Vec<u8>,
    pub(crate) token: u64,
    pub(crate) mode: Mode,
}

impl Step {
    pub(crate) fn new(resource: &[u8], token: u64, mode: Mode) -> Self {
        Self { resource: resource.to_vec(), token, mode }
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::new(self.token)
    }

    pub(crate) fn refused(&self, needed: u64) -> Stale {
        Stale { resource: self.resource.clone(), presented: self.token(), needed: FencingToken::new(needed) }
    }
}

/// Each mode after each mode, with a lower, an equal and a higher token: what passes, written down by hand.
pub(crate) const MATRIX: [(Mode, Mode, [bool; 3]); 4] = [
    (Mode::Exclusive, Mode::Exclusive, [false, true, true]),
    (Mode::Exclusive, Mode::Shared, [false, true, true]),
    (Mode::Shared, Mode::Exclusive, [false, true, true]),
    (Mode::Shared, Mode::Shared, [true, true, true]),
];

/// Visits to few resources with few tokens, so that they meet; among the names are those that are no text.
pub(crate) fn visits() -> impl Strategy<Value = Vec<Step>> {
    let resources: [&[u8]; 4] = [b"", b"stock/chair", b"\0", b"\xED\xA0\x80"];
    let mode = prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared)];
    let token = prop_oneof![1..9u64, Just(FencingToken::LIMIT - 1)];
    let visit =
        (0..4usize, token, mode).prop_map(move |(at, token, mode)| Step::new(resources[at], token, mode));
    proptest::collection::vec(visit, 1..40)
}

#[test]
fn the_oracle_agrees_with_the_matrix() {
    for (first, second, passes) in MATRIX {
        for (token, passes) in (4..).zip(passes) {
            let mut oracle = Oracle::default();
            oracle.pass(&Step::new(b"r", 5, first)).unwrap();
            assert_eq!(
                oracle.pass(&Step::new(b"r", token, second)).is_ok(),
                passes,
                "{first:?} 5, {second:?} {token}"
            );
        }
    }
}
