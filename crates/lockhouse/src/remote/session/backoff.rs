//! The growing pause between attempts to connect.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
pub(crate) const LONGEST: Duration = Duration::from_secs(5);

/// A connection that has lasted so long was a good one, and so was one that has outlived a heartbeat.
pub(crate) const GOOD: Duration = Duration::from_secs(1);

/// How often it was tried in vain.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// How long to wait before the next attempt: half to the whole of a span that doubles up to 5 s, at
    /// random, so that a restarted server is not met by all its clients at once.
    pub(crate) fn pause(&mut self) -> Duration {
        self.pause_of_at_most(LONGEST, Duration::ZERO)
    }

    /// The same, but no longer than `longest`. Up to there it is at least as long as the server has named.
    pub(crate) fn pause_of_at_most(&mut self, longest: Duration, named: Duration) -> Duration {
        let span = FIRST.saturating_mul(1 << self.attempts.min(16)).min(LONGEST).min(longest);
        self.attempts += 1;
        // Without randomness the pause is merely a predictable one.
        let jitter = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
        span.mul_f64(0.5 + jitter / 2.0).max(named.min(longest))
    }

    /// A connection has proved good.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_five_seconds_and_begin_anew_after_a_good_connection() {
        let mut backoff = Backoff::default();
        for span in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let pause = backoff.pause().as_millis();
            assert!((span / 2..=span).contains(&pause), "{pause} ms of {span} ms");
        }
        backoff.reset();
        assert!(backoff.pause().as_millis() <= 100);
    }

    #[test]
    fn pauses_grow_no_longer_than_is_asked_for() {
        let (mut backoff, most) = (Backoff::default(), Duration::from_millis(300));
        for span in [100, 200, 300, 300] {
            let pause = backoff.pause_of_at_most(most, Duration::ZERO).as_millis();
            assert!((span / 2..=span).contains(&pause), "{pause} ms of {span} ms");
        }
    }

    #[test]
    fn the_pause_is_as_long_as_the_server_has_named_up_to_the_longest() {
        let ms = Duration::from_millis;
        for (longest, named, pause) in [(LONGEST, ms(900), ms(900)), (ms(300), ms(900), ms(300))] {
            assert_eq!(Backoff::default().pause_of_at_most(longest, named), pause);
        }
        assert_eq!(Backoff::default().pause_of_at_most(LONGEST, ms(60_000)), LONGEST);
    }
}
