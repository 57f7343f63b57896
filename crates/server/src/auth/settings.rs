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
//! ```
//!
//! Names of members are snake_case, durations are written as on the command line. Nothing here is a secret: of API keys there are
//! hashes only, and the keys of tokens stand in files or in the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The tenant of a credential that names none.
pub const DEFAULT_TENANT: &str = "default";

/// What may be done in the buckets whose name fits a pattern: exactly, or by a prefix that ends in `*`. Of several that fit, all hold.
pub type Buckets = BTreeMap<String, Vec<Permission>>;

/// Who may do what. Without any key and any issuer the server has no authentication, and can only listen on loopback addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `[[auth.keys]]`: API keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeySettings>,
    /// `[[auth.jwt]]`: who signs tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jwt: Vec<JwtSettings>,
}

/// An API key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeySettings {
    /// What it is called, in logs, too: 1 to 64 of `a-z`, `0-9` and `-`.
    pub id: String,
    /// The hash of the whole key: `sha256:` and 64 hexadecimal digits.
    pub hash: String,
    /// Whose it is: 1 to 64 of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`. Tenants never meet.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// Gives each web origin, and programs that have none, a tenant of its own within the tenant.
    #[serde(default, skip_serializing_if = "is_false")]
    pub isolate_origins: bool,
    /// A private session, which is a tenant of its own within the tenant: as the name of a tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it may do where.
    pub buckets: Buckets,
}

/// Who signs tokens. What a token may do, it says in its claims.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JwtSettings {
    /// What the issuer is called, in logs: as the id of a key.
    pub id: String,
    /// The one algorithm of its tokens; what a token says of itself does not count.
    pub algorithm: Algorithm,
    /// The key: for HS256 the bytes of the file without a newline at the end, at least 32; otherwise the public key in PEM. Exactly one of
    /// `key_file`, `key_env` and `jwks_file` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The environment variable that has in it what `key_file` would have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// A JSON Web Key Set (RFC 7517), of which a token names a key by its `kid`. Read again with each reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// What the `iss` of a token must be.
    pub issuer: String,
    /// What the `aud` of a token must be or contain.
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

/// How tokens are signed (RFC 7518, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Algorithm {
    /// HMAC with SHA-256: whoever can check a token can make one.
    HS256,
    /// Ed25519.
    EdDSA,
    /// RSASSA-PKCS1-v1_5 with SHA-256, of at least 2048 bits.
    RS256,
}

/// What may be done in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Ask for web locks, and reclaim them.
    Request,
    /// Steal web locks.
    Steal,
    /// See what is held, who waits, what is claimed and what is assigned.
    Query,
    /// Begin owners, and lock, release and undo for them.
    Offline,
    /// Claim, renew, release and finalize.
    Claim,
    /// Break what others hold for good, take assignments back, and make backups.
    Operate,
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
