//! What a server behaves by.

use std::collections::HashMap;
use std::time::Duration;

use lockhouse::LockType;

use crate::access::Origin;
use crate::auth::Authority;
use crate::limits::LimitSettings;
use crate::tls::Tls;

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long the agents of a session live without an answer to a ping.
    pub lease: Lease,
    /// How long a stopping server waits for locks to be released.
    pub drain: Duration,
    /// Who may do what; the default one lets everybody on this machine do everything.
    pub authority: Authority,
    /// The origins, beyond loopback ones, whose pages may connect.
    pub allowed_origins: Vec<Origin>,
    /// How the records of a kind are locked, by the name of the kind; those of other kinds like [`LockType::ReadWrite`].
    pub lock_types: HashMap<String, LockType>,
    /// The certificate, if TLS is spoken.
    pub tls: Option<Tls>,
    /// The bounds that operators may change.
    pub limits: LimitSettings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Lease::default(),
            drain: Duration::from_secs(10),
            authority: Authority::default(),
            allowed_origins: Vec::new(),
            lock_types: HashMap::new(),
            tls: None,
            limits: LimitSettings::default(),
        }
    }
}

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

    /// Its length in milliseconds.
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
