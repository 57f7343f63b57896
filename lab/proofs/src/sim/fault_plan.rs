//! The faults of the store, which change from time to time.

use lockhouse_store::{FaultCount, Faults};
use random::Random;

/// No faults.
pub(super) const CALM: Faults = Faults::NONE;

/// The store takes calls, and answers none.
pub(super) const HANGS: &str = "store hangs";

/// A time with faults, with its name.
pub(super) fn some(random: &mut Random) -> (&'static str, Faults) {
    let wild = Faults { answer_lost: 80, batch_lost: 80, late: 80, refused: 80, stalled: 150, ..CALM };
    let full = Faults { refused: 1000, ..CALM };
    let silent = Faults { answer_lost: 500, batch_lost: 250, late: 250, ..CALM };
    match random.below(11) {
        0..5 => ("store is unreliable", wild),
        5..7 => ("store refuses everything", full),
        7..8 => ("store does not answer", silent),
        8..9 => (HANGS, CALM),
        _ => ("disk is slow", Faults { stalled: 300, ..CALM }),
    }
}

/// Slots are hard to take sometimes.
pub(super) fn while_it_begins(random: &mut Random) -> Faults {
    if random.percent(50) { CALM } else { Faults { take_failed: 300, answer_lost: 200, late: 200, ..CALM } }
}

/// The counts, with a name for each.
pub(super) fn by_class(count: &FaultCount) -> [(&'static str, u64); 6] {
    [
        ("store: answers lost", count.answers_lost),
        ("store: sections lost", count.batches_lost),
        ("store: sections late", count.late),
        ("store: sections refused", count.refused),
        ("store: calls stalled", count.stalled),
        ("store: takes failed", count.takes_failed),
    ]
}
