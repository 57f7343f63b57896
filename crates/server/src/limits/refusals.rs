//! Refusals and cut-offs, counted by kind.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockhouse_wire::NUMBER_LIMIT;
use tokio::time::sleep;

/// About how long a bound that others have reached stays reached.
pub(crate) const QUOTA: Duration = Duration::from_secs(1);

/// The wait before a repetition, as announced to clients: in whole milliseconds, rounded up, as an earlier
/// repetition would be in vain.
pub(crate) fn announced_ms(pause: Duration) -> u64 {
    let ms = pause.as_nanos().div_ceil(1_000_000);
    ms.clamp(1, u128::from(NUMBER_LIMIT) - 1) as u64
}

macro_rules! kinds {
    ($($(#[doc = $meaning:literal])+ $kind:ident = $word:literal;)*) => {
        /// A kind of refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refused {
            $($(#[doc = $meaning])+ $kind,)*
        }

        impl Refused {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// A connection over `connections`.
    Connections = "connections";
    /// A connection over `connections_per_address`.
    ConnectionsPerAddress = "connections_per_address";
    /// A WebSocket over `connections_per_tenant`.
    ConnectionsPerTenant = "connections_per_tenant";
    /// A session over `sessions`.
    Sessions = "sessions";
    /// A session over `sessions_per_tenant`.
    SessionsPerTenant = "sessions_per_tenant";
    /// A bucket over `buckets_per_tenant`.
    BucketsPerTenant = "buckets_per_tenant";
    /// A frame that was answered with `quota_exceeded`, for whatever bound.
    Frame = "frames_over_a_bound";
    /// A call that was answered with `quota_exceeded`, for whatever bound.
    Call = "calls_over_a_bound";
    /// A call over `tenant_rate`.
    TenantRate = "tenant_rate";
    /// A frame that was too large, and ended its connection.
    FrameBytes = "frame_bytes";
    /// A body that was too large.
    BodyBytes = "body_bytes";
    /// A connection whose request had no whole head within `header_timeout`.
    HeaderTimeout = "header_timeout";
    /// A connection without any request for `header_timeout`, or after an answer for `idle_timeout`.
    IdleTimeout = "idle_timeout";
    /// A body that was not there within `body_timeout`.
    BodyTimeout = "body_timeout";
    /// A larger body that came behind its head, while `LATE_BODIES` were waited for.
    LateBody = "late_bodies";
    /// A WebSocket without a `hello` within `hello_timeout`.
    HelloTimeout = "hello_timeout";
    /// A connection that took nothing for `write_timeout`.
    WriteTimeout = "write_timeout";
    /// A session that ended as its client acknowledged too little of what it was sent.
    SlowReader = "slow_reader";
    /// A line of the audit log that was left out, as the same was denied the same again and again.
    AuditLine = "audit_lines";
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The count of each kind since the start.
#[derive(Debug)]
pub(crate) struct Refusals([AtomicU64; Refused::ALL.len()]);

impl Default for Refusals {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; Refused::ALL.len()])
    }
}

/// The time between two log lines about the refusals since.
pub(crate) const LOG_EVERY: Duration = Duration::from_secs(10);

impl Refusals {
    pub(crate) fn count(&self, kind: Refused) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, kind: Refused) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    /// Logs the refusals at intervals, each kind only if there was any since.
    pub(crate) async fn log(&self) -> std::convert::Infallible {
        let mut logged = Refused::ALL.iter().map(|_| 0).collect::<Vec<u64>>();
        loop {
            sleep(LOG_EVERY).await;
            for (kind, logged) in Refused::ALL.iter().zip(&mut logged) {
                let count = self.of(*kind);
                if count > *logged {
                    tracing::info!(kind = kind.word(), count = count - *logged, total = count, "refused");
                    *logged = count;
                }
            }
        }
    }
}
