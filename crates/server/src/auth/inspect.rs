//! The description of a credential for the person who has it at hand.

use std::time::SystemTime;

use jsonwebtoken::dangerous;
use lockhouse_wire::Credential;
use serde_json::Value;

use super::authority::Authority;
use super::unauthenticated::Unauthenticated;
use crate::access::Initiator;
use crate::settings::sections::auth::Permission;

/// The content of a token. The text proves nothing: every program can write one.
#[derive(Clone, Debug)]
pub struct Unproven {
    /// The header, with the signature algorithm that the token claims.
    pub header: Value,
    /// The claims of the token.
    pub claims: Value,
}

/// The identity and the permissions of a valid credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The id of the key; or that of the issuer, a slash, and the subject of the token.
    pub name: String,
    /// The tenant whose buckets it sees.
    pub tenant: String,
    /// The private session that it is for.
    pub session: Option<String>,
    /// Whether each web origin has tables of its own.
    pub isolates_origins: bool,
    /// The permissions, by pattern of bucket names.
    pub buckets: Vec<(String, Vec<Permission>)>,
    /// The time from which it is not taken any more.
    pub expires_at: Option<SystemTime>,
}

/// The reason why a credential is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotTaken(String);

impl Unproven {
    /// Reads a token; none if the text is none.
    pub fn read(token: &str) -> Option<Self> {
        let token = dangerous::insecure_decode::<Value>(token).ok()?;
        Some(Self { header: serde_json::to_value(token.header).ok()?, claims: token.claims })
    }
}

impl Authority {
    /// The identity and the permissions of the credential, by these settings.
    ///
    /// # Errors
    ///
    /// [`NotTaken`]; without authentication, that no client needs a credential.
    pub fn inspect(&self, credential: &str) -> Result<Taken, NotTaken> {
        if self.is_open() {
            return Err(NotTaken(
                "there are no keys, issuers and certificates, so that nobody needs a credential".to_owned(),
            ));
        }
        let identity = self
            .identify(
                Credential::new(credential).as_ref(),
                &Err(Unauthenticated::Absent),
                &Initiator::Program,
            )
            .map_err(|why| NotTaken(why.to_string()))?;
        let buckets =
            identity.grants.iter().map(|(pattern, permissions)| (pattern, permissions.iter().collect()));
        Ok(Taken {
            buckets: buckets.collect(),
            name: identity.name,
            tenant: identity.tenant,
            session: identity.session,
            isolates_origins: identity.origin.is_some(),
            expires_at: identity.expires_at,
        })
    }
}
