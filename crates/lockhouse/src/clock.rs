//! The lease clock.
//!
//! While deadlines exist, time is a tick that a task of the house moves on a few times per second, by at most 500 ms at once:
//! a stalled process lengthens leases instead of breaking them. What ends at a tick is judged by the tick before, so
//! that everything that was waiting to be read then has been handled. Without deadlines it is a coarse system clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use lockhouse_core::Instant;

/// How often the clock ticks while deadlines exist.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// The most that one tick adds, in milliseconds.
const LONGEST_STEP_MS: u64 = 500;

/// How far calendar and system clock may drift apart before that shows in what people are told.
const CALENDAR_TOLERANCE_MS: u64 = 500;

/// Time of one house, in milliseconds since its beginning.
#[derive(Debug)]
pub(crate) struct Clock {
    system: System,
    ticking: AtomicBool,
    /// The time of the last tick, valid while ticking.
    tick_ms: AtomicU64,
    /// System time at the last tick, to measure the next step by.
    system_ms: AtomicU64,
    /// How far this clock lags behind the system's, through stalls; valid while not ticking.
    lag_ms: AtomicU64,
    /// When the system's clock was 0, in milliseconds since 1970.
    origin_ms: AtomicU64,
}

/// Where time comes from.
#[derive(Debug)]
enum System {
    Since(coarsetime::Instant),
    #[cfg(test)]
    Manual(AtomicU64),
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self::over(System::Since(coarsetime::Instant::now()))
    }

    /// A clock that stands still but for [`advance`](Self::advance).
    #[cfg(test)]
    pub(crate) fn manual() -> Self {
        Self::over(System::Manual(AtomicU64::new(0)))
    }

    fn over(system: System) -> Self {
        Self {
            system,
            ticking: AtomicBool::new(false),
            tick_ms: AtomicU64::new(0),
            system_ms: AtomicU64::new(0),
            lag_ms: AtomicU64::new(0),
            origin_ms: AtomicU64::new(0),
        }
    }

    /// Now. A bucket keeps the latest it has seen, as two readers may differ while ticking begins or ends.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        if self.ticking.load(Ordering::Acquire) {
            Instant::from_millis(self.tick_ms.load(Ordering::Acquire))
        } else {
            Instant::from_millis(self.free_running())
        }
    }

    /// When that was, or will be, by the calendar. The same instant is always told as the same time, unless the calendar has
    /// been set, or the machine has slept, by more than [`CALENDAR_TOLERANCE_MS`].
    pub(crate) fn wall(&self, at: Instant) -> SystemTime {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let origin = (since_1970.as_millis() as u64).saturating_sub(self.system());
        if origin.abs_diff(self.origin_ms.load(Ordering::Acquire)) > CALENDAR_TOLERANCE_MS {
            self.origin_ms.store(origin, Ordering::Release);
        }
        let ms = self.origin_ms.load(Ordering::Acquire) + self.lag() + at.as_millis();
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
    }

    /// Ticking begins: time stands still between ticks from now on.
    pub(crate) fn start_ticking(&self) {
        self.system_ms.store(self.system(), Ordering::Release);
        self.tick_ms.store(self.free_running(), Ordering::Release);
        self.ticking.store(true, Ordering::Release);
    }

    /// Ticking ends, with a last step: time runs freely from there on.
    pub(crate) fn stop_ticking(&self) {
        self.tick();
        self.lag_ms.store(self.lag(), Ordering::Release);
        self.ticking.store(false, Ordering::Release);
    }

    /// The step from one tick to the next.
    pub(crate) fn tick(&self) {
        let system = self.system();
        let step = system.saturating_sub(self.system_ms.swap(system, Ordering::AcqRel));
        self.tick_ms.fetch_add(step.min(LONGEST_STEP_MS), Ordering::AcqRel);
    }

    fn lag(&self) -> u64 {
        if !self.ticking.load(Ordering::Acquire) {
            return self.lag_ms.load(Ordering::Acquire);
        }
        self.system_ms.load(Ordering::Acquire).saturating_sub(self.tick_ms.load(Ordering::Acquire))
    }

    fn free_running(&self) -> u64 {
        self.system().saturating_sub(self.lag_ms.load(Ordering::Acquire))
    }

    fn system(&self) -> u64 {
        match &self.system {
            System::Since(origin) => origin.elapsed().as_millis(),
            #[cfg(test)]
            System::Manual(ms) => ms.load(Ordering::Acquire),
        }
    }

    #[cfg(test)]
    pub(crate) fn advance(&self, by_ms: u64) {
        if let System::Manual(ms) = &self.system {
            ms.fetch_add(by_ms, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_told_as_the_same_time_whenever_one_asks() {
        let clock = Clock::manual();
        let at = clock.now();
        let told = clock.wall(at);
        clock.advance(120);
        clock.start_ticking();
        clock.advance(130);
        clock.tick();
        clock.advance(60);
        assert_eq!(clock.wall(at), told);
        clock.stop_ticking();
        assert_eq!(clock.wall(at), told);
        assert_eq!(clock.wall(clock.now()), told + Duration::from_millis(310));
    }
}
