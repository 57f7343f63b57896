//! The clock by which a node is patient with others.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::slot_lease::NodeClock;
use crate::engine::sync::spawn;

/// The time that a node has seen passing, by which it is patient with others: however far its clock leaps
/// between two looks at it, and however long the process stands still, that is one step.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    system: Arc<NodeClock>,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    passed: Duration,
    /// The last reading of the clock.
    at: Duration,
}

/// The pause between two looks at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// The most that passes between two looks.
const LONGEST_STEP: Duration = Duration::from_millis(100);

impl SteadyClock {
    /// One that goes on in the present runtime.
    pub(crate) fn begin(system: NodeClock) -> Arc<Self> {
        let seen = Mutex::new(Seen { passed: Duration::ZERO, at: system.now() });
        let clock = Arc::new(Self { system: Arc::new(system), seen });
        let known = Arc::downgrade(&clock);
        spawn(async move {
            while let Some(clock) = known.upgrade() {
                clock.now();
                drop(clock);
                sleep(LOOK).await;
            }
        });
        clock
    }

    /// What has passed since the beginning.
    pub(crate) fn now(&self) -> Duration {
        let mut seen = self.seen.lock();
        let now = self.system.now();
        let step = now.saturating_sub(seen.at).min(LONGEST_STEP);
        (seen.passed, seen.at) = (seen.passed + step, now);
        seen.passed
    }

    /// Waits until so much has passed.
    pub(crate) async fn until(&self, instant: Duration) {
        loop {
            let left = instant.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(LOOK)).await;
        }
    }

    /// The clock itself, by which the node counts its own rights.
    pub(crate) fn system(&self) -> Arc<NodeClock> {
        self.system.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn a_leap_of_the_clock_is_one_step_of_patience() {
        let clock = ManualClock::new();
        let steady = SteadyClock::begin(NodeClock::new(Some(&clock)));
        assert_eq!(steady.now(), ms(0));
        clock.advance(ms(30));
        assert_eq!(steady.now(), ms(30));
        clock.advance(ms(15_000));
        assert_eq!(steady.now(), ms(130));
        // No other task looks while the time passes.
        for _ in 0..40 {
            clock.advance(ms(50));
            sleep(ms(50)).await;
        }
        assert_eq!(steady.now(), ms(2130));

        let waits = tokio::spawn({
            let steady = steady.clone();
            async move { steady.until(ms(3130)).await }
        });
        clock.advance(ms(15_000));
        sleep(ms(1)).await;
        assert!(!waits.is_finished());
        for _ in 0..18 {
            clock.advance(ms(50));
            sleep(ms(50)).await;
        }
        waits.await.unwrap();
        assert!(steady.now() >= ms(3130) && steady.now() <= ms(3230), "{:?}", steady.now());
    }
}
