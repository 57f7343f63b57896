//! The grant of an entry of the settings to its clients.

use super::bad_settings::BadSettings;
use super::identity::{Identity, TENANT_RULE, is_tenant};
use super::permissions::Grants;
use crate::settings::sections::auth::Buckets;

/// The tenant of a client, and its permissions.
#[derive(Clone, Debug)]
pub(super) struct CredentialGrant {
    tenant: String,
    session: Option<String>,
    grants: Grants,
}

impl CredentialGrant {
    /// As the entry at that place says.
    pub(super) fn new(
        tenant: &str,
        session: Option<&str>,
        buckets: &Buckets,
        place: &str,
    ) -> Result<Self, BadSettings> {
        let bad = |member: &str, why: String| BadSettings { field: format!("{place}.{member}"), why };
        for (member, value) in [("tenant", Some(tenant)), ("session", session)] {
            if let Some(value) = value.filter(|value| !is_tenant(value)) {
                return Err(bad(member, format!("is {value:?}, but must be {TENANT_RULE}")));
            }
        }
        if buckets.is_empty() {
            return Err(bad("buckets", "is empty, but must name what may be done where".to_owned()));
        }
        let grants =
            Grants::new(buckets).map_err(|(pattern, why)| bad(&format!("buckets.{pattern:?}"), why))?;
        Ok(Self { tenant: tenant.to_owned(), session: session.map(str::to_owned), grants })
    }

    /// An identity with this grant, without an end.
    pub(super) fn identity(&self, name: &str) -> Identity {
        Identity {
            name: name.to_owned(),
            token_hash: None,
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            origin: None,
            grants: self.grants.clone(),
            expires_at: None,
        }
    }
}
