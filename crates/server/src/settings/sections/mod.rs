//! All settings of a server, section by section.

pub(crate) mod auth;
pub(crate) mod cluster;
pub(crate) mod history;
pub(super) mod lease;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod metrics;
pub(super) mod origin;
pub(super) mod store;
pub(super) mod text;
pub(crate) mod tls;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use lockhouse::LockType;
use lockhouse_wire::decode::Choice;

use self::cluster::ClusterSettings;
use self::history::HistorySettings;
use self::lease::Lease;
use self::limits::LimitSettings;
use self::log::LogSettings;
use self::metrics::MetricsSettings;
use self::origin::Origin;
use self::store::StoreChoice;
use self::tls::TlsSettings;
use super::decode::{Table, flag};

/// The lock types as they are written.
const LOCK_TYPES: Choice<LockType> = Choice(&[
    ("read-write", LockType::ReadWrite),
    ("exclusive-write", LockType::ExclusiveWrite),
    ("exclusive-read", LockType::ExclusiveRead),
]);

/// Whether operators who break holds must say why, as it is written.
const BREAK_REASONS: Choice<BreakReason> =
    Choice(&[("optional", BreakReason::Optional), ("required", BreakReason::Required)]);

/// Whether operators who break holds must say why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakReason {
    /// They may.
    #[default]
    Optional,
    /// They must.
    Required,
}

/// All settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on, `HOST:PORT`.
    pub listen: String,
    /// The store for the state that outlives the server.
    pub store: StoreChoice,
    /// A file with the password of the store.
    pub store_password_file: Option<PathBuf>,
    /// How long an answer of the store is waited for.
    pub store_timeout: Duration,
    /// Whether no client can hold anything from before; only without a file.
    pub fresh: bool,
    /// How long the agents of a session live without an answer to a ping.
    pub lease: Lease,
    /// How long a stopping server waits for locks to be released, at most an hour.
    pub drain: Duration,
    /// The origins, beyond loopback ones, whose pages may connect.
    pub allowed_origins: Vec<Origin>,
    pub(super) lock_types: BTreeMap<String, LockType>,
    /// Whether operators who break holds must say why.
    pub break_reason: BreakReason,
    /// `[tls]`
    pub tls: TlsSettings,
    /// `[cluster]`
    pub cluster: ClusterSettings,
    /// `[auth]`
    pub auth: auth::Settings,
    /// `[limits]`
    pub limits: LimitSettings,
    /// `[metrics]`
    pub metrics: MetricsSettings,
    /// `[history]`
    pub history: HistorySettings,
    /// `[log]`
    pub log: LogSettings,
}

impl Settings {
    /// Whether the server is to be a node of a fleet.
    pub fn is_of_fleet(&self) -> bool {
        matches!(self.store, StoreChoice::Postgres(_))
    }

    /// All fields are read first, so that all faults are found.
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        let listen = table.required("listen", text::listen);
        let store = table.required("store", text::parsed);
        let store_password_file = table.optional("store_password_file", text::path);
        let store_timeout = table.required("store_timeout", text::store_timeout);
        let fresh = table.required("fresh", flag);
        let lease = table.required("lease", text::lease);
        let drain = table.required("drain", text::drain);
        let allowed_origins = table.required("allowed_origins", |value| value.list(text::parsed));
        let lock_types = table.required("lock_types", |value| value.map(|word| word.choice(&LOCK_TYPES)));
        let break_reason = table.required("break_reason", |value| value.choice(&BREAK_REASONS));
        let tls = table.section("tls", TlsSettings::read).unwrap_or_default();
        let cluster = table.section("cluster", ClusterSettings::read).unwrap_or_default();
        let auth = table.section("auth", auth::Settings::read).unwrap_or_default();
        let limits = table.section("limits", LimitSettings::read).unwrap_or_default();
        let metrics = table.section("metrics", MetricsSettings::read).unwrap_or_default();
        let history = table.section("history", HistorySettings::read).unwrap_or_default();
        let log = table.section("log", LogSettings::read).unwrap_or_default();
        Some(Self {
            listen: listen?,
            store: store?,
            store_password_file,
            store_timeout: store_timeout?,
            fresh: fresh?,
            lease: lease?,
            drain: drain?,
            allowed_origins: allowed_origins?,
            lock_types: lock_types?,
            break_reason: break_reason?,
            tls,
            cluster,
            auth,
            limits,
            metrics,
            history,
            log,
        })
    }

    /// How the records of a kind are locked, by the name of the kind.
    pub fn lock_types(&self) -> HashMap<String, LockType> {
        self.lock_types.iter().map(|(kind, lock_type)| (kind.clone(), *lock_type)).collect()
    }

    /// The store, which has to know whether a client can hold something from before.
    pub fn store(&self) -> StoreChoice {
        match &self.store {
            StoreChoice::Memory { .. } => StoreChoice::Memory { fresh: self.fresh },
            store => store.clone(),
        }
    }
}
