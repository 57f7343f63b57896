//! Instants on a clock that goes on while the machine sleeps.

use std::time::Duration;

/// An instant on a clock that goes on while the machine sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(Reading);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(read())
    }

    pub(crate) fn elapsed(self) -> Duration {
        advance(self.0)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
use boottime::{Reading, advance, read};
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use both_clocks::{Reading, advance, read};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod boottime {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    pub(crate) type Reading = Duration;

    pub(crate) fn read() -> Reading {
        let time = clock_gettime(ClockId::Boottime);
        // The clock counts from the start of the machine, with nanoseconds below 10^9.
        let time = Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32);
        #[cfg(feature = "lab")]
        let time = time + crate::lab_clocks::leap();
        time
    }

    pub(crate) fn advance(since: Reading) -> Duration {
        read().saturating_sub(since)
    }
}

/// Where no clock is known to count sleep, the one that has advanced further is taken.
#[cfg_attr(any(target_os = "linux", target_os = "android"), cfg(test))]
mod both_clocks {
    use std::time::{Duration, Instant, SystemTime};

    pub(crate) type Reading = (Instant, SystemTime);

    pub(crate) fn read() -> Reading {
        (Instant::now(), SystemTime::now())
    }

    pub(crate) fn advance((monotonic, wall): Reading) -> Duration {
        monotonic.elapsed().max(wall.elapsed().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_set_forward_counts() {
        let (monotonic, wall) = both_clocks::read();
        let hour = Duration::from_secs(3600);
        assert!(both_clocks::advance((monotonic, wall - hour)) >= hour);
        assert!(both_clocks::advance((monotonic, wall + hour)) < hour);
    }
}
