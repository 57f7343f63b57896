//! Authentication and permissions: credentials, and the permissions that they carry.
//!
//! ```text
//!   Settings ─▶ Authority ── identify(credential, certificate, initiator) ──▶ Identity
//!                                                                                │
//!   where it leads:          BucketKey ◀── bucket(name) ─────────────────────────┤
//!   what may be done there:  permissions(name) ◀─────────────────────────────────┘
//! ```
//!
//! A credential is an API key or a token; a client that presents none is known by the client certificate of
//! its connection. The credential says which tenant is meant, so that no client can even name a bucket of
//! another tenant, and what may be done in which of the tenant's buckets. The permissions that routes and
//! frames need stand in one table for each: `http::routes` and `session::calls`.

mod authority;
mod bad_settings;
mod certificates;
mod grant;
mod identity;
mod inspect;
mod issuer_keys;
mod keys;
mod permissions;
mod tokens;
mod unauthenticated;

pub use crate::settings::sections::auth::{
    Algorithm, Buckets, CertificateSettings, DEFAULT_TENANT, JwtSettings, KeySettings, Permission, Settings,
};
pub use authority::Authority;
pub use bad_settings::BadSettings;
pub(crate) use identity::Identity;
pub use inspect::{NotTaken, Taken, Unproven};
pub use keys::{NewKey, key_id};
pub(crate) use permissions::Permissions;
pub(crate) use unauthenticated::{PresentedCertificate, Unauthenticated, certificate};
