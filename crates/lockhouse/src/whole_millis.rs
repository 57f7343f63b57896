//! Durations as the lock manager counts them.

use std::time::Duration;

/// Rounded up, so that a hold is never shorter than asked for.
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
