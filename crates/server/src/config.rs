//! The configuration of a server.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::{LockType, Options};

use crate::auth::{Authority, BadSettings};
use crate::cluster::ClusterSecret;
use crate::settings::{
    BreakReason, ClusterSettings, HistorySettings, Lease, LimitSettings, LoadedSettings, MetricsSettings,
    Origin, Settings, SettingsProblem,
};
use crate::tls::{Tls, certificates};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long the agents of a session live without an answer to a ping.
    pub lease: Lease,
    /// How long a stopping server waits for its store, and, if nothing outlives it, for locks to be released.
    pub drain: Duration,
    /// How long an answer of the store is waited for.
    pub store_timeout: Duration,
    /// The authority over all permissions; the default one lets every client on this machine do everything.
    pub authority: Authority,
    /// The origins, beyond loopback ones, whose pages may connect.
    pub allowed_origins: Vec<Origin>,
    /// How the records of a kind are locked, by the name of the kind; those of other kinds like
    /// [`LockType::ReadWrite`].
    pub lock_types: HashMap<String, LockType>,
    /// Whether operators who break holds must say why.
    pub break_reason: BreakReason,
    /// The certificate, if TLS is spoken.
    pub tls: Option<Tls>,
    /// A file with the password of the store.
    pub store_password_file: Option<PathBuf>,
    /// How the server is a node of a fleet, if its store is in PostgreSQL.
    pub cluster: ClusterSettings,
    /// The bounds that operators may change.
    pub limits: LimitSettings,
    /// What is counted for those that watch the server.
    pub metrics: MetricsSettings,
    /// What is kept of what has happened.
    pub history: HistorySettings,
    /// The lines of the log that were dropped.
    pub dropped_lines: DroppedLines,
}

/// The number of lines of the log that were dropped, as its reader did not keep up or they could not be
/// written. The program that writes the log counts them; the default is that none is ever dropped.
#[derive(Clone)]
pub struct DroppedLines(Arc<dyn Fn() -> u64 + Send + Sync>);

impl DroppedLines {
    /// Counted by this function.
    pub fn counted_by(count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// The number of now, since the program began.
    pub(crate) fn count(&self) -> u64 {
        self.0()
    }
}

impl Default for DroppedLines {
    fn default() -> Self {
        Self::counted_by(|| 0)
    }
}

impl fmt::Debug for DroppedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DroppedLines").field(&self.count()).finish()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Lease::default(),
            drain: Duration::from_secs(10),
            store_timeout: Options::STORE_TIMEOUT,
            authority: Authority::default(),
            allowed_origins: Vec::new(),
            lock_types: HashMap::new(),
            break_reason: BreakReason::default(),
            tls: None,
            store_password_file: None,
            cluster: ClusterSettings::default(),
            limits: LimitSettings::default(),
            metrics: MetricsSettings::default(),
            history: HistorySettings::default(),
            dropped_lines: DroppedLines::default(),
        }
    }
}

impl Settings {
    /// The configuration, without the files that the settings name.
    pub fn config(&self) -> Config {
        Config {
            lease: self.lease,
            drain: self.drain,
            store_timeout: self.store_timeout,
            allowed_origins: self.allowed_origins.clone(),
            lock_types: self.lock_types(),
            break_reason: self.break_reason,
            authority: Authority::default(),
            tls: None,
            store_password_file: self.store_password_file.clone(),
            cluster: self.cluster.clone(),
            limits: self.limits,
            metrics: self.metrics.clone(),
            history: self.history,
            dropped_lines: DroppedLines::default(),
        }
    }
}

impl LoadedSettings {
    /// The authority by these settings; reads the files that they name.
    ///
    /// # Errors
    ///
    /// The fault of the first entry that is wrong.
    pub fn authority(&self) -> Result<Authority, SettingsProblem> {
        Authority::new(&self.settings.auth).map_err(|error| self.problem_of_auth(error))
    }

    /// Faults of the files that the settings name, and of the section `[auth]`, whatever the environment
    /// says.
    pub fn check_files(&self) -> Vec<SettingsProblem> {
        let tls = Tls::check(&self.settings.tls).into_iter().map(|error| {
            let message = error.to_string();
            let rule = message
                .strip_prefix(error.key())
                .and_then(|rule| rule.strip_prefix(": "))
                .unwrap_or(&message);
            SettingsProblem::of_value(error.key(), self.tree.nearest(error.key()), rule)
        });
        let mut problems: Vec<SettingsProblem> = tls.collect();
        problems.extend(
            Authority::check(&self.settings.auth).into_iter().map(|error| self.problem_of_auth(error)),
        );
        problems.extend(self.check_files_of_fleet());
        problems
    }

    /// The mark of the secret that the nodes of a fleet share, by which nodes compare theirs; none if no such
    /// secret can be read.
    pub fn cluster_secret_mark(&self) -> Option<[u8; 32]> {
        let file = self.settings.cluster.secret_file.as_ref()?;
        ClusterSecret::read(file).ok().map(|secret| secret.mark())
    }

    fn check_files_of_fleet(&self) -> Vec<SettingsProblem> {
        let ClusterSettings { secret_file, ca, .. } = &self.settings.cluster;
        let secret = secret_file.iter().filter_map(|file| ClusterSecret::read(file).err());
        let ca = ca.iter().filter_map(|file| certificates("cluster.ca", file).err());
        let password = self.settings.store_password_file.iter().filter_map(|file| {
            let error = std::fs::read(file).err()?;
            Some(format!("store_password_file: {} cannot be read: {error}", file.display()))
        });
        let faults = secret.chain(ca.map(|error| error.to_string())).chain(password);
        let problem = |fault: String| {
            let (key, rule) = fault.split_once(": ")?;
            Some(SettingsProblem::of_value(key, self.tree.nearest(key), rule))
        };
        faults.filter_map(problem).collect()
    }

    fn problem_of_auth(&self, error: BadSettings) -> SettingsProblem {
        let node = self.tree.nearest(&error.field);
        SettingsProblem::of_value(&error.field, node, error.why)
    }
}
