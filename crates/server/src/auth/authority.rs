//! Everything that the server goes by when it judges a credential.

use super::settings::{JwtSettings, KeySettings, Settings};

/// Judges credentials. Made anew from the settings when they change.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    keys: Vec<KeySettings>,
    issuers: Vec<JwtSettings>,
}

/// Settings that make no sense, told in one line that names the member, the value and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadSettings {
    /// The member, such as `auth.keys[0].hash`.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

impl Authority {
    /// By these settings; reads the files and environment variables that they name.
    ///
    /// # Errors
    ///
    /// [`BadSettings`].
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        Ok(Self { keys: settings.keys.clone(), issuers: settings.jwt.clone() })
    }

    /// Whether there is no authentication at all: everybody who can connect may do everything.
    pub fn is_open(&self) -> bool {
        self.keys.is_empty() && self.issuers.is_empty()
    }
}
