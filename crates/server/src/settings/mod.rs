//! The settings of a server, from a file, the environment and the command line.
//!
//! ```text
//!   command line ─▶ environment ─▶ file ─▶ defaults       the first that has a value counts
//!        └──────────────┴─────────────┴─────────┴──▶ tree: each value with its place
//!                                                      │
//!   Settings, with defaults in place of wrong values ◀─┴─ decode: Table ─▶ Field ── rule
//!                                         place, key, value, rule: problem ◀──┘
//! ```
//!
//! Each section of the file is a type, which reads its table field by field, and a list of its [`Key`]s. The
//! fields and rules are those of frames and bodies of HTTP, too: `lockhouse_wire::decode`.

mod check;
mod decode;
mod file;
mod key;
mod keys;
mod problem;
pub(crate) mod secret;
pub(crate) mod sections;
mod show;
mod sources;
mod tree;

pub use self::key::Key;
pub use self::keys::keys;
pub use self::problem::SettingsProblem;
pub(crate) use self::sections::auth::Permission;
pub use self::sections::cluster::{ClusterSettings, NoNodeUrl, NodeUrl};
pub use self::sections::history::HistorySettings;
pub use self::sections::lease::{Lease, LeaseOutOfRange};
pub use self::sections::limits::{LimitOutOfRange, LimitSetting, LimitSettings, LimitValue};
pub use self::sections::log::{LogFormat, LogSettings};
pub use self::sections::metrics::MetricsSettings;
pub use self::sections::origin::{InvalidOrigin, Origin};
pub use self::sections::store::{NoStore, PostgresUrl, StoreChoice};
pub use self::sections::tls::{ClientAuth, TlsSettings};
pub use self::sections::{BreakReason, Settings};
#[cfg(test)]
pub(crate) use self::sources::read_section;
pub use self::sources::{FlagValue, LoadedSettings, Sources};
pub use self::tree::Location;
