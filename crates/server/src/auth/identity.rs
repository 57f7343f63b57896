//! The identity of a client whose credential was taken, and the buckets that it leads to.

use std::time::SystemTime;

use lockhouse::BucketKey;

use super::permissions::{Grants, Permissions};
use super::unauthenticated::Unauthenticated;
use crate::access::Initiator;
use crate::settings::sections::auth::DEFAULT_TENANT;

/// The identity of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The name in logs: the id of the key, or the id of the issuer and the subject of the token.
    pub(crate) name: String,
    /// The hash of a token without a subject, whose bearer nothing else tells from others.
    pub(crate) token_hash: Option<String>,
    /// The tenant whose buckets the client sees.
    pub(crate) tenant: String,
    /// The private session that is apart from all else of the tenant.
    pub(crate) session: Option<String>,
    /// The web origin that is apart from others; an empty one for programs.
    pub(crate) origin: Option<String>,
    /// The permissions.
    pub(crate) grants: Grants,
    /// The end of the credential's validity.
    pub(crate) expires_at: Option<SystemTime>,
}

/// A partition that cannot be distinguished from the encoding of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("partition begins with U+001F, but must not")]
pub(crate) struct ReservedPartition;

impl Identity {
    /// The identity of every client, where there is no authentication.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: "anybody".to_owned(),
            token_hash: None,
            tenant: DEFAULT_TENANT.to_owned(),
            session: None,
            origin: None,
            grants: Grants::all(),
            expires_at: None,
        }
    }

    /// The caller, as far as it can be told from others.
    pub(crate) fn caller(&self) -> &str {
        self.token_hash.as_deref().unwrap_or(&self.name)
    }

    pub(crate) fn permissions(&self, bucket: &str) -> Permissions {
        self.grants.on(bucket)
    }

    /// The lock table that is meant by the name of a bucket and a partition: never one of another tenant.
    pub(crate) fn bucket(&self, bucket: String, partition: &str) -> Result<BucketKey, ReservedPartition> {
        if partition.starts_with(BucketKey::SEPARATOR) {
            return Err(ReservedPartition);
        }
        Ok(BucketKey { bucket, partition: self.partition(partition) })
    }

    /// The partitions of the tenant `default` stay as they are, as on a server without authentication.
    ///
    /// Tenant and private session come first, as they name the payer ([`BucketKey::tenant`]): both stand in
    /// the credential. Origin and partition do not, as a program may claim to be any origin.
    fn partition(&self, partition: &str) -> String {
        let is_plain = self.tenant == DEFAULT_TENANT && self.session.is_none() && self.origin.is_none();
        if is_plain {
            return partition.to_owned();
        }
        let part = |word: &str, value: &Option<String>| {
            value.as_ref().map_or_else(String::new, |value| format!("{word}:{value}"))
        };
        let (session, origin) = (part("session", &self.session), part("origin", &self.origin));
        let parts = ["", &self.tenant, &session, &origin, partition];
        parts.join(&BucketKey::SEPARATOR.to_string())
    }
}

/// The rule of the names of tenants and private sessions.
pub(super) const TENANT_RULE: &str = "1 to 64 of A-Z, a-z, 0-9, \".\", \"_\" and \"-\"";

pub(super) fn is_tenant(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

/// The owner of the tables meant by a credential that sets origins apart: the page, or the programs.
pub(super) fn isolated(initiator: &Initiator) -> Result<String, Unauthenticated> {
    match initiator {
        Initiator::Program => Ok(String::new()),
        Initiator::Page(origin) => Ok(origin.clone()),
        Initiator::UnknownPage => Err(Unauthenticated::UnknownPage),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn who(tenant: &str, session: Option<&str>, origin: Option<&str>) -> Identity {
        let [session, origin] = [session, origin].map(|text| text.map(str::to_owned));
        Identity { tenant: tenant.to_owned(), session, origin, ..Identity::anonymous() }
    }

    #[test]
    fn no_two_tenants_sessions_or_origins_share_a_table() {
        let all = [
            who("default", None, None),
            who("acme", None, None),
            who("default", Some("acme"), None),
            who("acme", Some("a"), None),
            who("acme", None, Some("")),
            who("acme", None, Some("https://a.example")),
            who("acme", Some("a"), Some("https://a.example")),
            who("default", None, Some("")),
        ];
        let partitions = ["", "acme", "session:a", "a\u{1f}b"];
        let keys: HashSet<_> = all
            .iter()
            .flat_map(|who| partitions.map(|partition| who.bucket("b".to_owned(), partition).unwrap()))
            .collect();
        assert_eq!(keys.len(), all.len() * partitions.len());
    }

    #[test]
    fn whatever_a_client_says_of_itself_it_is_one_tenant() {
        let tenant =
            |who: &Identity, partition| who.bucket("b".to_owned(), partition).unwrap().tenant().to_owned();
        for (name, session, expected) in [
            ("acme", None, "acme"),
            ("default", None, "default"),
            ("acme", Some("a"), "acme\u{1f}session:a"),
            ("default", Some("a"), "default\u{1f}session:a"),
        ] {
            for origin in [None, Some(""), Some("https://a.example"), Some("https://b.example")] {
                let who = who(name, session, origin);
                for partition in ["", "top", "a\u{1f}b", "session:b"] {
                    assert_eq!(tenant(&who, partition), expected, "{origin:?} {partition:?}");
                }
            }
        }
    }

    #[test]
    fn no_client_chooses_the_partition_of_another_tenant() {
        let other = who("acme", None, None).bucket("b".to_owned(), "").unwrap();
        let mine = who("default", None, None).bucket("b".to_owned(), &other.partition);
        assert_eq!(mine, Err(ReservedPartition));
        let default = who("default", None, None).bucket("b".to_owned(), "top").unwrap();
        assert_eq!(default.partition, "top");
    }
}
