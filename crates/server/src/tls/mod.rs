//! TLS on the listener, for WebSockets and HTTP alike: TLS 1.2 and 1.3 as rustls has them.
//!
//! Every handshake begins with the files loaded last, so that a new certificate is shown to new connections
//! and touches no old one.

mod certificate;
mod config;
mod files;
mod fingerprint;
mod handshake;
mod self_signed;
pub(crate) mod subject;

pub(crate) use self::certificate::{ClientCertificate, NotGood};
pub use self::config::{Files, Tls};
pub use self::files::TlsError;
pub(crate) use self::files::certificates;
pub use self::fingerprint::fingerprint;
