//! `lease`

use std::time::Duration;

/// How long an agent lives without a sign of life: from half a second to ten minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    ms: u64,
}

/// A lease that is too short or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lease lasts from 500ms to 10m")]
pub struct LeaseOutOfRange;

impl Default for Lease {
    fn default() -> Self {
        Self { ms: 10_000 }
    }
}

impl Lease {
    /// A lease of that length.
    ///
    /// # Errors
    ///
    /// [`LeaseOutOfRange`].
    pub fn new(length: Duration) -> Result<Self, LeaseOutOfRange> {
        let range = Duration::from_millis(500)..=Duration::from_secs(600);
        if range.contains(&length) {
            Ok(Self { ms: length.as_millis() as u64 })
        } else {
            Err(LeaseOutOfRange)
        }
    }

    /// The length in milliseconds.
    pub fn as_millis(self) -> u64 {
        self.ms
    }

    /// How often the server pings: ten times in a lease.
    pub fn heartbeat(self) -> Duration {
        Duration::from_millis(self.ms / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lies_between_half_a_second_and_ten_minutes() {
        assert_eq!(Lease::new(Duration::from_millis(499)), Err(LeaseOutOfRange));
        assert_eq!(Lease::new(Duration::from_secs(601)), Err(LeaseOutOfRange));
        assert_eq!(
            Lease::new(Duration::from_millis(500)).map(Lease::heartbeat),
            Ok(Duration::from_millis(50))
        );
        assert_eq!(Lease::default().heartbeat(), Duration::from_secs(1));
    }
}
