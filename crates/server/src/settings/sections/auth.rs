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
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::settings::key::Key;

/// The tenant of a credential that names none.
pub const DEFAULT_TENANT: &str = BucketKey::DEFAULT_TENANT;

/// Permissions in the buckets whose name fits a pattern: exactly, or by a prefix that ends in `*`. Of several
/// that fit, all hold.
pub type Buckets = BTreeMap<String, Vec<Permission>>;

/// The credentials that the server takes, and their permissions. Without any key, issuer and certificate the
/// server has no authentication, and can only listen on loopback addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeySettings {
    /// The name, in logs, too: 1 to 64 of `a-z`, `0-9` and `-`.
    pub id: String,
    /// The hash of the whole key: `sha256:` and 64 hexadecimal digits.
    pub hash: String,
    /// The tenant that the key belongs to: 1 to 64 of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`. Tenants never
    /// meet.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// Gives each web origin, and programs that have none, tables of their own within the tenant.
    #[serde(default, skip_serializing_if = "is_false")]
    pub isolate_origins: bool,
    /// A private session, which is a tenant of its own within the tenant: as the name of a tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The permissions by bucket.
    pub buckets: Buckets,
}

/// An issuer of tokens. The permissions of a token are in its claims.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JwtSettings {
    /// The name of the issuer, in logs: as the id of a key.
    pub id: String,
    /// The one algorithm of its tokens; the algorithm that a token names does not count.
    pub algorithm: Algorithm,
    /// The key: for HS256 the bytes of the file without a newline at the end, at least 32; otherwise the
    /// public key in PEM. Exactly one of `key_file`, `key_env` and `jwks_file` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The environment variable with the content that `key_file` would have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// A JSON Web Key Set (RFC 7517), of which a token names a key by its `kid`. Read again with each reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// The required `iss` of a token.
    pub issuer: String,
    /// The value that the `aud` of a token must be or contain.
    pub audience: String,
    /// By how much the clocks of the issuer and of the server may differ, at most 5m.
    #[serde(
        default = "default_leeway",
        deserialize_with = "read_duration",
        serialize_with = "write_duration"
    )]
    pub leeway: Duration,
    /// The only tenant that its tokens speak for; without it the claim `tenant` says which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// The identity that a client certificate stands for, once the TLS handshake has verified it: by one of its
/// subject alternative names, or by its fingerprint. Exactly one of `dns`, `uri`, `email` and `sha256` is
/// there; of several entries that fit a certificate the first holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateSettings {
    /// The name, in logs, too: as the id of a key, and none that a key has.
    pub id: String,
    /// A DNS name, whole and without wildcards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// A URI, such as `spiffe://acme.example/billing`, to the letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// An e-mail address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The SHA-256 of the whole certificate in hexadecimal, with or without colons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The tenant that the certificate belongs to: as that of a key.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// A private session, which is a tenant of its own within the tenant: as the name of a tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The permissions by bucket.
    pub buckets: Buckets,
}

/// The signature algorithm of tokens (RFC 7518, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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

fn default_tenant() -> String {
    DEFAULT_TENANT.to_owned()
}

fn default_leeway() -> Duration {
    Duration::from_secs(30)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn read_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|_| {
        de::Error::invalid_value(
            de::Unexpected::Str(&text),
            &"a duration, which is written like 500ms, 10s or 1m",
        )
    })
}

fn write_duration<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*length))
}
