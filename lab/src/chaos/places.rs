//! Where clients meet: buckets in every slot, and new ones all the time.

use std::sync::LazyLock;
use std::time::Duration;

use lockhouse::store::{Scope, Slot};
use random::Random;

use crate::crash::recorder::now;
use crate::crash::worker::Ways;

pub(super) const SLOTS: u16 = 16;

/// A bucket in each slot.
pub(super) static BASES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let of_slot = |slot: &u16| {
        let mut names = (0..).map(|number| format!("base-{number}"));
        names.find(|name| Slot::of(&Scope::new("", name.as_str()), SLOTS).get() == *slot)
    };
    (0..SLOTS).collect::<Vec<_>>().iter().filter_map(of_slot).collect()
});

/// How long all clients use the same names, and mostly the same two buckets.
const ERA: Duration = Duration::from_secs(4);

/// New buckets in each era.
const NEW: usize = 3;

/// The work of the clients. TTLs are so long that a clock that leaps ends nothing within their certain part.
pub(super) const WAYS: Ways = Ways {
    bucket,
    era,
    names: 6,
    pause: Duration::from_millis(15),
    hold: Duration::from_millis(40),
    owner_ttl_ms: (8000, 4000),
    claim_ttl_ms: (8000, 4000),
    gives_up_claims: false,
};

fn era() -> usize {
    (now() / ERA.as_nanos() as u64) as usize
}

fn bucket(random: &mut Random) -> String {
    let era = era();
    match random.below(100) {
        0..70 => BASES[(5 * era + random.below(2)) % BASES.len()].clone(),
        70..85 => BASES[random.below(BASES.len())].clone(),
        _ => format!("new-{era}-{}", random.below(NEW)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_bucket() {
        let slots = BASES.iter().map(|name| Slot::of(&Scope::new("", name.as_str()), SLOTS).get());
        assert_eq!(slots.collect::<Vec<_>>(), (0..SLOTS).collect::<Vec<_>>());
    }
}
