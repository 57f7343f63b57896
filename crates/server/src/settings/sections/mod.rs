//! All settings of a server, section by section.

pub(crate) mod auth;
pub(super) mod lease;
pub(crate) mod limits;
pub(super) mod origin;
pub(super) mod store;
pub(super) mod text;
pub(crate) mod tls;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lockhouse::LockType;
use serde::Deserialize;

use self::lease::Lease;
use self::limits::LimitSettings;
use self::origin::Origin;
use self::store::StoreChoice;
use self::tls::TlsSettings;

/// All settings of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The address to listen on, `HOST:PORT`.
    #[serde(deserialize_with = "text::listen")]
    pub listen: String,
    /// The store for the state that outlives the server.
    pub store: StoreChoice,
    /// Whether no client can hold anything from before; only without a file.
    pub fresh: bool,
    /// How long the agents of a session live without an answer to a ping.
    pub lease: Lease,
    /// How long a stopping server waits for locks to be released, at most an hour.
    #[serde(deserialize_with = "text::drain")]
    pub drain: Duration,
    /// The origins, beyond loopback ones, whose pages may connect.
    pub allowed_origins: Vec<Origin>,
    pub(super) lock_types: BTreeMap<String, LockTypeText>,
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

impl Settings {
    /// How the records of a kind are locked, by the name of the kind.
    pub fn lock_types(&self) -> HashMap<String, LockType> {
        self.lock_types.iter().map(|(kind, lock_type)| (kind.clone(), (*lock_type).into())).collect()
    }

    /// The store, which has to know whether a client can hold something from before.
    pub fn store(&self) -> StoreChoice {
        match &self.store {
            StoreChoice::Memory { .. } => StoreChoice::Memory { fresh: self.fresh },
            store => store.clone(),
        }
    }
}

/// A [`LockType`] as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LockTypeText {
    ReadWrite,
    ExclusiveWrite,
    ExclusiveRead,
}

impl From<LockTypeText> for LockType {
    fn from(text: LockTypeText) -> Self {
        match text {
            LockTypeText::ReadWrite => Self::ReadWrite,
            LockTypeText::ExclusiveWrite => Self::ExclusiveWrite,
            LockTypeText::ExclusiveRead => Self::ExclusiveRead,
        }
    }
}
