//! What a server is told, from a file, the environment and the command line.
//!
//! ```text
//!   command line ─▶ environment ─▶ file ─▶ defaults       the first that says something is heard
//!        └──────────────┴─────────────┴─────────┴──▶ tree: each value with its place ─▶ decode ─▶ Settings
//!                                                                     └──▶ problems: place, key, value, rule
//! ```
//!
//! Each section of the file is a serde type and a list of its [`Key`]s; both are named here, and nowhere else.

mod decode;
mod file;
mod key;
mod problem;
mod show;
mod sources;
pub(crate) mod text;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use lockhouse::LockType;
use serde::Deserialize;

pub use self::key::Key;
pub use self::problem::Problem;
pub use self::sources::{Loaded, Said, Sources};
pub use self::text::parse_duration;
pub use self::tree::Place;

use self::text::LockTypeText;
use self::tree::Node;
use crate::access::Origin;
use crate::auth::{self, Authority};
use crate::config::{Config, Lease};
use crate::limits::{LimitSetting, LimitSettings, LimitValue};
use crate::store::StoreChoice;
use crate::tls::{self, Tls, TlsSettings};

/// Everything that a server can be told.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where to listen, `HOST:PORT`.
    #[serde(deserialize_with = "text::listen")]
    pub listen: String,
    /// Where to keep what outlives the server.
    pub store: StoreChoice,
    /// Whether nobody can hold anything of before; only without a file.
    pub fresh: bool,
    /// How long the agents of a session live without an answer to a ping.
    pub lease: Lease,
    /// How long a stopping server waits for locks to be released, at most an hour.
    #[serde(deserialize_with = "text::drain")]
    pub drain: Duration,
    /// The origins, beyond loopback ones, whose pages may connect.
    pub allowed_origins: Vec<Origin>,
    lock_types: BTreeMap<String, LockTypeText>,
    /// `[tls]`
    #[serde(default)]
    pub tls: TlsSettings,
    /// `[auth]`
    #[serde(default)]
    pub auth: auth::Settings,
    /// `[limits]`
    #[serde(default)]
    pub limits: LimitSettings,
}

/// Every key that there is, in the order in which they are shown.
pub fn keys() -> &'static [Key] {
    static KEYS: LazyLock<Vec<Key>> =
        LazyLock::new(|| [server_keys(), tls::keys(), auth_keys(), limit_keys()].concat());
    &KEYS
}

/// What stands above all tables.
fn server_keys() -> Vec<Key> {
    vec![
        Key::new("listen", "\"127.0.0.1:7420\"").flag("--listen"),
        Key::new("store", "\"sqlite:lockhouse.db\"").flag("--store"),
        Key::new("fresh", "false").flag("--fresh"),
        Key::new("lease", "\"10s\"").flag("--lease"),
        Key::new("drain", "\"10s\"").flag("--drain"),
        Key::new("allowed_origins", "[]").flag("--allow-origin"),
        Key::new("lock_types", "{}").flag("--lock-type"),
    ]
}

/// `[auth]`, whose lists are taken whole.
fn auth_keys() -> Vec<Key> {
    ["auth.keys", "auth.jwt", "auth.certificates"].map(|path| Key::new(path, "[]").reloads()).to_vec()
}

/// `[limits]`
fn limit_keys() -> Vec<Key> {
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
        LimitValue::Time(length) => tree::quoted(&LimitValue::Time(length).to_string()),
    }
}

/// Keys whose values nobody is shown, wherever they stand: who mistakes a key for its hash, or for the name of its variable, shall not find it in a log.
const SECRETS: &[&str] = &["hash", "key_env"];

fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
}

impl Settings {
    /// How the records of a kind are locked, by the name of the kind.
    pub fn lock_types(&self) -> HashMap<String, LockType> {
        self.lock_types.iter().map(|(kind, lock_type)| (kind.clone(), (*lock_type).into())).collect()
    }

    /// The store, which has to know whether anybody can hold something of before.
    pub fn store(&self) -> StoreChoice {
        match &self.store {
            StoreChoice::Memory { .. } => StoreChoice::Memory { fresh: self.fresh },
            store => store.clone(),
        }
    }

    /// What the server behaves by, without the files that the settings name.
    pub fn config(&self) -> Config {
        Config {
            lease: self.lease,
            drain: self.drain,
            allowed_origins: self.allowed_origins.clone(),
            lock_types: self.lock_types(),
            authority: Authority::default(),
            tls: None,
            limits: self.limits,
        }
    }

    /// What is wrong with settings each of which is right by itself, but for those that have been told as wrong: what depends on one of them is not judged.
    fn check(&self, tree: &Node, told: &[Problem]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |key: &str, others: &[&str], rule: &str| {
            let is_told = |path: &str| told.iter().any(|problem| problem.is_within(path));
            if let Some(node) = tree.get(key)
                && !is_told(key)
                && !others.iter().any(|path| is_told(path))
            {
                problems.push(Problem::of_value(key, node, rule));
            }
        };
        if self.fresh && matches!(self.store, StoreChoice::Sqlite(_)) {
            wrong(
                "fresh",
                &["store"],
                "only with the store memory:, as a database file knows by itself whether there is anything to wait for",
            );
        }
        if self.lock_types.contains_key("") {
            wrong("lock_types", &[], "a kind has a name");
        }
        // A file that says something twice is no TOML, but options and variables can.
        if tree.get("lock_types").is_some_and(|node| node.len() > self.lock_types.len()) {
            wrong("lock_types", &[], "a kind has one type, and stands there once");
        }
        self.tls.check(&mut wrong);
        if !self.auth.certificates.is_empty() && self.tls.client_ca.is_none() {
            wrong(
                "auth.certificates",
                &["tls.client_ca"],
                "needs tls.client_ca, the file with the CAs whose client certificates are taken",
            );
        }
        for (setting, value) in LimitSettings::ALL.iter().zip(self.limits.values()) {
            let LimitSetting { key, least, most, .. } = setting;
            if !(*least..=*most).contains(&value) {
                wrong(&format!("limits.{key}"), &[], &format!("must be from {least} to {most}"));
            }
        }
        problems
    }
}

impl Loaded {
    /// Who may do what by these settings; reads the files that they name.
    ///
    /// # Errors
    ///
    /// What is wrong with the first that is.
    pub fn authority(&self) -> Result<Authority, Problem> {
        Authority::new(&self.settings.auth).map_err(|error| self.of_auth(error))
    }

    /// What is wrong with the files that the settings name, and with the section `[auth]`, whatever the environment says.
    pub fn check_files(&self) -> Vec<Problem> {
        let tls = Tls::check(&self.settings.tls).into_iter().map(|error| {
            let told = error.to_string();
            let rule =
                told.strip_prefix(error.key()).and_then(|rule| rule.strip_prefix(": ")).unwrap_or(&told);
            Problem::of_value(error.key(), self.tree.nearest(error.key()), rule)
        });
        let mut problems: Vec<Problem> = tls.collect();
        problems.extend(Authority::check(&self.settings.auth).into_iter().map(|error| self.of_auth(error)));
        problems
    }

    fn of_auth(&self, error: auth::BadSettings) -> Problem {
        let node = self.tree.nearest(&error.field);
        Problem::of_value(&error.field, node, error.why)
    }
}
