//! The section `[auth]` of the configuration.
//!
//! ```toml
//! [[auth.keys]]                       # an API key, as `lockhouse key new` prints it
//! id = "ci"
//! hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
//! tenant = "acme"                     # absent: "default"
//! [auth.keys.buckets]                 # by exact name, or by a prefix that ends in *
//! "orders" = ["request", "query"]
//! "seats*" = ["claim", "query"]
//!
//! [[auth.jwt]]                        # who signs tokens (RFC 7519) that the server takes
//! id = "idp"
//! algorithm = "RS256"
//! jwks_file = "/etc/lockhouse/jwks.json"
//! issuer = "https://idp.example"
//! audience = "lockhouse"
//! tenant = "acme"                     # absent: the token names its tenant
//!
//! [[auth.certificates]]               # whom a client certificate of `tls.client_ca` stands for
//! id = "billing"
//! uri = "spiffe://acme.example/billing"
//! tenant = "acme"
//! [auth.certificates.buckets]
//! "seats*" = ["claim", "query"]
//! ```
//!
//! Names of members are snake_case, durations are written as on the command line. Nothing here is a secret:
//! of API keys there are hashes only, and the keys of tokens stand in files or in the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockhouse::BucketKey;
use lockhouse_wire::decode::Choice;
use serde::{Deserialize, Serialize};

use super::text;
use crate::settings::decode::{Decoded, NodeAt, Table, flag};
use crate::settings::key::Key;

/// The tenant of a credential that names none.
pub const DEFAULT_TENANT: &str = BucketKey::DEFAULT_TENANT;

/// By how much clocks may differ for an issuer that says nothing of it.
const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);

const ALGORITHMS: Choice<Algorithm> =
    Choice(&[("HS256", Algorithm::HS256), ("EdDSA", Algorithm::EdDSA), ("RS256", Algorithm::RS256)]);

const PERMISSIONS: Choice<Permission> = Choice(&[
    ("request", Permission::Request),
    ("steal", Permission::Steal),
    ("query", Permission::Query),
    ("offline", Permission::Offline),
    ("claim", Permission::Claim),
    ("operate", Permission::Operate),
]);

/// Permissions in the buckets whose name fits a pattern: exactly, or by a prefix that ends in `*`. Of several
/// that fit, all hold.
pub type Buckets = BTreeMap<String, Vec<Permission>>;

/// The credentials that the server takes, and their permissions. Without any key, issuer and certificate the
/// server has no authentication, and can only listen on loopback addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// `[[auth.keys]]`: API keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeySettings>,
    /// `[[auth.jwt]]`: issuers of tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jwt: Vec<JwtSettings>,
    /// `[[auth.certificates]]`: the identities that client certificates stand for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateSettings>,
}

/// An API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeySettings {
    /// The name, in logs, too: 1 to 64 of `a-z`, `0-9` and `-`.
    pub id: String,
    /// The hash of the whole key: `sha256:` and 64 hexadecimal digits.
    pub hash: String,
    /// The tenant that the key belongs to: 1 to 64 of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`. Tenants never
    /// meet.
    pub tenant: String,
    /// Gives each web origin, and programs that have none, tables of their own within the tenant.
    #[serde(skip_serializing_if = "is_false")]
    pub isolate_origins: bool,
    /// A private session, which is a tenant of its own within the tenant: as the name of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The permissions by bucket.
    pub buckets: Buckets,
}

/// An issuer of tokens. The permissions of a token are in its claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JwtSettings {
    /// The name of the issuer, in logs: as the id of a key.
    pub id: String,
    /// The one algorithm of its tokens; the algorithm that a token names does not count.
    pub algorithm: Algorithm,
    /// The key: for HS256 the bytes of the file without a newline at the end, at least 32; otherwise the
    /// public key in PEM. Exactly one of `key_file`, `key_env` and `jwks_file` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The environment variable with the content that `key_file` would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// A JSON Web Key Set (RFC 7517), of which a token names a key by its `kid`. Read again with each reload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// The required `iss` of a token.
    pub issuer: String,
    /// The value that the `aud` of a token must be or contain.
    pub audience: String,
    /// By how much the clocks of the issuer and of the server may differ, at most 5m.
    #[serde(serialize_with = "text::write_duration")]
    pub leeway: Duration,
    /// The only tenant that its tokens speak for; without it the claim `tenant` says which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// The identity that a client certificate stands for, once the TLS handshake has verified it: by one of its
/// subject alternative names, or by its fingerprint. Exactly one of `dns`, `uri`, `email` and `sha256` is
/// there; of several entries that fit a certificate the first holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CertificateSettings {
    /// The name, in logs, too: as the id of a key, and none that a key has.
    pub id: String,
    /// A DNS name, whole and without wildcards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// A URI, such as `spiffe://acme.example/billing`, to the letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// An e-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The SHA-256 of the whole certificate in hexadecimal, with or without colons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The tenant that the certificate belongs to: as that of a key.
    pub tenant: String,
    /// A private session, which is a tenant of its own within the tenant: as the name of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The permissions by bucket.
    pub buckets: Buckets,
}

/// The signature algorithm of tokens (RFC 7518, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Algorithm {
    /// HMAC with SHA-256: every program that can check a token can make one.
    HS256,
    /// Ed25519.
    EdDSA,
    /// RSASSA-PKCS1-v1_5 with SHA-256, of at least 2048 bits.
    RS256,
}

/// A permission in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Ask for web locks, and reclaim them.
    Request,
    /// Steal web locks.
    Steal,
    /// See held locks, waiting requests, claims and assignments.
    Query,
    /// Begin owners, and lock, release and undo for them.
    Offline,
    /// Claim, renew, release and finalize.
    Claim,
    /// Break what others hold for good, take assignments back, and make backups.
    Operate,
}

/// `[auth]`, whose lists are taken whole.
pub(crate) fn keys() -> Vec<Key> {
    ["auth.keys", "auth.jwt", "auth.certificates"].map(|path| Key::new(path, "[]").reloads()).to_vec()
}

impl Settings {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            keys: table.optional("keys", |all| all.list(|one| one.table(KeySettings::read)))?,
            jwt: table.optional("jwt", |all| all.list(|one| one.table(JwtSettings::read)))?,
            certificates: table
                .optional("certificates", |all| all.list(|one| one.table(CertificateSettings::read)))?,
        })
    }
}

impl KeySettings {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let id = table.required("id", text::string);
        let hash = table.required("hash", text::string);
        let tenant = table.optional("tenant", text::string).unwrap_or_else(|| DEFAULT_TENANT.to_owned());
        let isolate_origins = table.optional("isolate_origins", flag).unwrap_or_default();
        let session = table.optional("session", text::string);
        let buckets = table.required("buckets", buckets);
        Some(Self { id: id?, hash: hash?, tenant, isolate_origins, session, buckets: buckets? })
    }
}

impl JwtSettings {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let id = table.required("id", text::string);
        let algorithm = table.required("algorithm", |value| value.choice(&ALGORITHMS));
        let key_file = table.optional("key_file", text::path);
        let key_env = table.optional("key_env", text::string);
        let jwks_file = table.optional("jwks_file", text::path);
        let issuer = table.required("issuer", text::string);
        let audience = table.required("audience", text::string);
        let leeway = table.optional("leeway", text::time).unwrap_or(DEFAULT_LEEWAY);
        let tenant = table.optional("tenant", text::string);
        Some(Self {
            id: id?,
            algorithm: algorithm?,
            key_file,
            key_env,
            jwks_file,
            issuer: issuer?,
            audience: audience?,
            leeway,
            tenant,
        })
    }
}

impl CertificateSettings {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let id = table.required("id", text::string);
        let dns = table.optional("dns", text::string);
        let uri = table.optional("uri", text::string);
        let email = table.optional("email", text::string);
        let sha256 = table.optional("sha256", text::string);
        let tenant = table.optional("tenant", text::string).unwrap_or_else(|| DEFAULT_TENANT.to_owned());
        let session = table.optional("session", text::string);
        let buckets = table.required("buckets", buckets);
        Some(Self { id: id?, dns, uri, email, sha256, tenant, session, buckets: buckets? })
    }
}

fn buckets(value: NodeAt<'_>) -> Decoded<Buckets> {
    value.map(|permissions| permissions.list(|word| word.choice(&PERMISSIONS)))
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(flag: &bool) -> bool {
    !flag
}
