//! Who may do what: credentials, and the permissions that they carry.

mod authority;
mod settings;

pub use authority::{Authority, BadSettings};
pub use settings::{Algorithm, Buckets, DEFAULT_TENANT, JwtSettings, KeySettings, Permission, Settings};
