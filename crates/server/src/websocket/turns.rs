//! The turns in which clients come again whose connections this server closes for a while.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::bounds::{LONGEST_TURN, RETURNS_PER_SECOND};

/// Spreads clients that have to come again, here or at another server: a crowd that comes at once would take
/// down the one that is left.
#[derive(Debug)]
pub(crate) struct Turns(Mutex<Instant>);

impl Turns {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// How long the next client waits. Those for which there is no turn within [`LONGEST_TURN`] come at any
    /// time within it.
    pub(crate) fn next(&self) -> Duration {
        let now = Instant::now();
        let mut next = self.0.lock();
        let wait = next.saturating_duration_since(now);
        if wait > LONGEST_TURN {
            drop(next);
            // Without randomness they come together.
            let share = getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX));
            return LONGEST_TURN.mul_f64(share);
        }
        *next = now + wait + Duration::from_secs(1) / RETURNS_PER_SECOND;
        wait
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clients_come_one_after_the_other_and_none_waits_for_too_long() {
        let turns = Turns::new();
        let step = Duration::from_secs(1) / RETURNS_PER_SECOND;
        for number in 0..4 {
            assert_eq!(turns.next(), step * number);
        }
        advance(step * 3).await;
        assert_eq!(turns.next(), step);
        let crowd = RETURNS_PER_SECOND * 6;
        assert!((0..crowd).all(|_| turns.next() <= LONGEST_TURN));
        advance(Duration::from_secs(60)).await;
        assert_eq!(turns.next(), Duration::ZERO);
    }
}
