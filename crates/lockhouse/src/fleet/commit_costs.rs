//! How much a commit takes, by what the last ones have taken.

use std::time::Duration;

use lockhouse_store::BATCH_COST;

use super::turns::LIGHT;
use crate::engine::commit::batch::LEAST_SHARE;

/// How long the rows of a commit may take. Callers of other slots wait for them; a shorter time would leave
/// more of each commit to its own price.
const ROWS: Duration = Duration::from_millis(15);

/// Each commit has this part in the averages.
const PART: u32 = 4;

/// What commits cost: a price for each, and a price for each unit of their batches.
#[derive(Debug)]
pub(super) struct CommitCosts {
    /// The duration of a commit with next to nothing in it.
    empty: Duration,
    /// The duration that each unit of cost adds.
    unit: Duration,
    /// The rows of a commit should never take longer.
    longest: Duration,
}

impl CommitCosts {
    /// The first guess is that of a local database.
    pub(super) fn new(longest: Duration) -> Self {
        let (empty, unit) = (Duration::from_millis(4), Duration::from_micros(50));
        Self { empty, unit, longest: longest.min(ROWS) }
    }

    /// The cost that a commit should have at most now.
    pub(super) fn cost(&self) -> usize {
        let units = self.longest.as_nanos() / self.unit.as_nanos().max(1);
        usize::try_from(units).unwrap_or(BATCH_COST).clamp(LEAST_SHARE, BATCH_COST)
    }

    /// A commit of that cost took so long.
    pub(super) fn took(&mut self, cost: usize, length: Duration) {
        if cost <= LIGHT {
            self.empty = average(self.empty, length);
        } else {
            // A cost is far below what 32 bits hold.
            let unit = length.saturating_sub(self.empty) / u32::try_from(cost).unwrap_or(u32::MAX);
            self.unit = average(self.unit, unit);
        }
    }
}

fn average(known: Duration, new: Duration) -> Duration {
    known - known / PART + new / PART
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// What is known after a hundred commits at these prices, each of the cost that is allowed or of next to
    /// nothing, in turn.
    fn learned(empty: Duration, unit: Duration) -> CommitCosts {
        let mut costs = CommitCosts::new(ms(190));
        for _ in 0..50 {
            let cost = costs.cost();
            costs.took(cost, empty + unit * cost as u32);
            costs.took(1, empty + unit);
        }
        costs
    }

    #[test]
    fn the_rows_of_a_commit_take_as_long_as_others_may_wait_whatever_an_empty_one_takes() {
        for (empty, unit) in [(2_000, 20), (3_000, 100), (40_000, 100)] {
            let (empty, unit) = (Duration::from_micros(empty), Duration::from_micros(unit));
            let length = unit * learned(empty, unit).cost() as u32;
            assert!(length > ROWS / 2 && length < ROWS * 2, "{length:?}");
        }
    }

    #[test]
    fn the_largest_command_fits_however_slow_the_database_is_and_a_commit_has_a_bound() {
        assert_eq!(learned(ms(100), ms(50)).cost(), LEAST_SHARE);
        assert_eq!(learned(ms(30), Duration::from_nanos(100)).cost(), BATCH_COST);
    }

    #[test]
    fn commits_that_wait_for_a_busy_machine_do_not_make_the_next_ones_larger() {
        let mut costs = learned(ms(4), Duration::from_micros(100));
        let before = costs.cost();
        for _ in 0..50 {
            costs.took(1, ms(30));
            costs.took(costs.cost(), ms(45));
        }
        assert!(costs.cost() <= before * 2, "{before} {}", costs.cost());
    }
}
