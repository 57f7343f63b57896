//! The bounds that operators may change: the section `[limits]` of the configuration.
//!
//! Each has a default, a least and a most; those of time are written like `"10s"`. The other bounds of the
//! server are constants in `limiter.rs`; `docs/limits.md` lists all of them.

use std::fmt;
use std::time::Duration;

use lockhouse::Limits;
use lockhouse_wire::decode::Number;
use serde::{Serialize, Serializer};

use super::text;
use crate::bounds::{AGENTS_PER_SESSION, REQUESTS_PER_SESSION};
use crate::settings::decode::{Decoded, NodeAt, Table};
use crate::settings::key::Key;
use crate::settings::tree::quoted;

/// With fewer a server is of no use.
pub(crate) const LEAST_CONNECTIONS: u32 = 16;

/// A number whose range is a matter of each setting.
const COUNT: Number = Number { words: Some("must be a whole number"), ..Number::new(0, u32::MAX as u64, 0) };

/// One setting, for lists and checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSetting {
    /// The key.
    pub key: &'static str,
    /// The default, as it is written.
    pub default: LimitValue,
    /// The least that it may be.
    pub least: LimitValue,
    /// The most that it may be.
    pub most: LimitValue,
    /// The quantity that the setting bounds.
    pub meaning: &'static str,
    /// Whether a running server takes a new value over, rather than the next one to start.
    pub is_reloadable: bool,
    /// The answer beyond the bound.
    pub beyond: &'static str,
}

/// The value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum LimitValue {
    /// A number.
    Count(u32),
    /// A time.
    Time(#[serde(serialize_with = "text::write_duration")] Duration),
}

impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Time(length) => humantime::format_duration(*length).fmt(f),
        }
    }
}

/// A setting out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limits.{key} is {value}, but must be {rule}")]
pub struct LimitOutOfRange {
    /// The key.
    pub key: &'static str,
    /// The value.
    pub value: LimitValue,
    /// The rule of the value.
    pub rule: String,
}

macro_rules! settings {
    ($($(#[doc = $meaning:literal])+ $key:ident: $kind:ident = $default:expr, $least:expr, $most:expr, $reload:literal, $beyond:literal;)*) => {
        /// The section `[limits]` of the configuration: bounds that operators may change. A key that is left
        /// out has its default.
        ///
        /// ```
        /// use lockhouse_server::LimitSettings;
        ///
        /// let settings = LimitSettings { connections: 500, ..LimitSettings::default() };
        /// assert!(settings.check().is_ok());
        /// let error = LimitSettings { connections: 0, ..settings }.check().unwrap_err();
        /// assert_eq!(error.to_string(), "limits.connections is 0, but must be from 16 to 1000000");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct LimitSettings {
            $(
                $(#[doc = $meaning])+
                pub $key: of_kind!($kind),
            )*
        }

        impl LimitSettings {
            /// Every setting, in the order in which they are listed.
            pub const ALL: &'static [LimitSetting] = &[$(LimitSetting {
                key: stringify!($key),
                default: LimitValue::$kind($default),
                least: LimitValue::$kind($least),
                most: LimitValue::$kind($most),
                meaning: concat!($($meaning),+),
                is_reloadable: $reload,
                beyond: $beyond,
            }),*];

            /// The settings used unless others are given.
            pub const DEFAULT: Self = Self { $($key: $default),* };

            /// The values, in the order of [`ALL`](Self::ALL).
            pub fn values(&self) -> Vec<LimitValue> {
                vec![$(LimitValue::$kind(self.$key)),*]
            }

            pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
                Some(Self { $($key: table.optional(stringify!($key), Written::read)?),* })
            }

            /// These settings as far as a running server can take them over, and of all others what `running`
            /// has.
            #[must_use]
            pub fn reloaded_over(self, running: &Self) -> Self {
                Self { $($key: if $reload { self.$key } else { running.$key }),* }
            }
        }
    };
}

macro_rules! of_kind {
    (Count) => {
        u32
    };
    (Time) => {
        Duration
    };
}

settings! {
    /// Connections at once, of all kinds.
    connections: Count = 16_384, LEAST_CONNECTIONS, 1_000_000, true, "status 503 `overloaded`, and closed";
    /// Connections at once from one address; of IPv6, from one network of 64 bits.
    connections_per_address: Count = 12_288, 1, 1_000_000, true, "status 503 `overloaded`, and closed";
    /// WebSockets at once of one tenant.
    connections_per_tenant: Count = 12_288, 1, 1_000_000, true, "close 1013";
    /// Sessions at once, with and without a connection.
    sessions: Count = 100_000, 1, 1_000_000, true, "close 1013";
    /// Sessions at once of one tenant.
    sessions_per_tenant: Count = 75_000, 1, 1_000_000, true, "close 1013";
    /// Buckets of one tenant that are in use at once.
    buckets_per_tenant: Count = 10_000, 1, 1_000_000, true, "close 1013; status 429 `quota_exceeded`";
    /// Agents of a session at once, for later sessions.
    agents_per_session: Count = AGENTS_PER_SESSION as u32, 1, AGENTS_PER_SESSION as u32, true, "error `quota_exceeded`";
    /// Requests and locks of a session at once, for later sessions.
    requests_per_session: Count = REQUESTS_PER_SESSION as u32, 1, REQUESTS_PER_SESSION as u32, true, "error `quota_exceeded`";
    /// Agents of a bucket at once.
    agents_per_bucket: Count = Limits::DEFAULT.agents, 1, 10_000_000, false, "error `quota_exceeded`";
    /// Requests, locks and claims of a bucket at once.
    requests_per_bucket: Count = 5_000_000, 1, 100_000_000, false, "error or status 429 `quota_exceeded`";
    /// Names of a bucket with something held or queued.
    names_per_bucket: Count = 5_000_000, 1, 100_000_000, false, "error or status 429 `quota_exceeded`";
    /// Owners of a bucket at once.
    owners_per_bucket: Count = Limits::DEFAULT.owners, 1, 10_000_000, false, "status 429 `quota_exceeded`";
    /// Offline locks of one owner.
    locks_per_owner: Count = Limits::DEFAULT.locks_per_owner, 1, 10_000_000, false, "status 429 `quota_exceeded`";
    /// Claims and assignments of a bucket together.
    assignments_per_bucket: Count = Limits::DEFAULT.assignments, 1, 100_000_000, false, "status 429 `quota_exceeded`";
    /// MiB in memory of what a tenant has in all its buckets: names, labels, metadata and the places in which
    /// they are kept.
    table_mib_per_tenant: Count = 4096, 1, 1_048_576, true, "error or status 429 `quota_exceeded`";
    /// MiB in memory of what the clients of a tenant have not taken yet, of what their watches were told
    /// last, and of what was read of them before its turn.
    unread_mib_per_tenant: Count = 1024, 1, 1_048_576, true, "queries and watches: error `quota_exceeded`; other frames: close 4429 `slow_reader`, the session ends";
    /// Frames of one session in a second.
    session_rate: Count = 2_000_000, 1, 10_000_000, true, "read more slowly";
    /// Frames and calls of one tenant in a second.
    tenant_rate: Count = 2_000_000, 1, 10_000_000, true, "read more slowly; status 429 `rate_limited`";
    /// How long a connection may be without the whole head of its first request, or of one that has begun.
    header_timeout: Time = Duration::from_secs(10), Duration::from_millis(100), Duration::from_secs(3600), true, "closed";
    /// How long a connection may be idle after an answer. The header `Keep-Alive` says so.
    idle_timeout: Time = Duration::from_secs(75), Duration::from_millis(100), Duration::from_secs(3600), true, "closed";
    /// How long the body of a request may take.
    body_timeout: Time = Duration::from_secs(10), Duration::from_millis(100), Duration::from_secs(3600), true, "status 408 `request_timeout`";
    /// How long a WebSocket may take for its `hello`.
    hello_timeout: Time = Duration::from_secs(10), Duration::from_millis(100), Duration::from_secs(3600), true, "close 4400";
    /// How long a connection may take nothing while there is something to write.
    write_timeout: Time = Duration::from_secs(10), Duration::from_millis(100), Duration::from_secs(3600), true, "cut off; the session goes on until its lease ends";
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl LimitSettings {
    /// `table_mib_per_tenant` in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        mib(self.table_mib_per_tenant)
    }

    /// `unread_mib_per_tenant` in bytes.
    pub(crate) fn unread_bytes(&self) -> usize {
        mib(self.unread_mib_per_tenant)
    }

    /// Whether each setting is within its range.
    ///
    /// # Errors
    ///
    /// [`LimitOutOfRange`] of the first that is not.
    pub fn check(&self) -> Result<(), LimitOutOfRange> {
        for (setting, value) in Self::ALL.iter().zip(self.values()) {
            let LimitSetting { key, least, most, .. } = *setting;
            if !(least..=most).contains(&value) {
                return Err(LimitOutOfRange { key, value, rule: format!("from {least} to {most}") });
            }
        }
        Ok(())
    }
}

/// `[limits]`
pub(crate) fn keys() -> Vec<Key> {
    let key = |setting: &LimitSetting| Key {
        path: format!("limits.{}", setting.key).into(),
        default: Some(limit_text(setting.default).into()),
        flag: None,
        reloads: setting.is_reloadable,
    };
    LimitSettings::ALL.iter().map(key).collect()
}

/// As it stands in the file.
fn limit_text(value: LimitValue) -> String {
    match value {
        LimitValue::Count(count) => count.to_string(),
        LimitValue::Time(length) => quoted(&LimitValue::Time(length).to_string()),
    }
}

fn mib(count: u32) -> usize {
    (count as usize).saturating_mul(1 << 20)
}

/// A value, as it is written.
trait Written: Sized {
    fn read(value: NodeAt<'_>) -> Decoded<Self>;
}

impl Written for u32 {
    fn read(value: NodeAt<'_>) -> Decoded<Self> {
        // The rule admits no larger number.
        value.read(|field| field.number(&COUNT)).map(|count| count as Self)
    }
}

impl Written for Duration {
    fn read(value: NodeAt<'_>) -> Decoded<Self> {
        text::time(value)
    }
}

impl Serialize for LimitSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = Self::ALL.iter().map(|setting| setting.key);
        serializer.collect_map(keys.zip(self.values()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read_section;

    #[test]
    fn every_default_is_within_its_range() {
        assert_eq!(LimitSettings::DEFAULT.check(), Ok(()));
        assert_eq!(LimitSettings::ALL.len(), LimitSettings::DEFAULT.values().len());
    }

    #[test]
    fn a_section_has_defaults_for_what_it_leaves_out_and_no_other_keys() {
        let read = |text: &str| read_section("limits", text, LimitSettings::read);
        let settings = read("tenant_rate = 7").expect("a section");
        assert_eq!(settings, LimitSettings { tenant_rate: 7, ..LimitSettings::DEFAULT });
        let error = read("tenant_rates = 7").expect_err("no such key");
        let rule = "unknown key; the nearest known one is limits.tenant_rate";
        assert_eq!(error, [format!("f:1: limits.tenant_rates: {rule}")]);
        assert!(read("tenant_rate = -1").is_err());
        let times = read("hello_timeout = \"500ms\"").expect("a section");
        assert_eq!(times.hello_timeout, Duration::from_millis(500));
        assert!(read("hello_timeout = \"500\"").is_err());
        let written = toml::to_string(&times).expect("numbers and texts");
        assert_eq!(read(&written).expect("as it was written"), times);
    }

    #[test]
    fn a_running_server_keeps_what_it_cannot_change() {
        let new = LimitSettings { names_per_bucket: 5, connections: 50, ..LimitSettings::DEFAULT };
        let taken = new.reloaded_over(&LimitSettings::DEFAULT);
        assert_eq!(taken, LimitSettings { connections: 50, ..LimitSettings::DEFAULT });
    }
}
