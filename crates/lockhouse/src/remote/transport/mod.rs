//! How bytes come to a server: its addresses, the streams and sockets to it, and the credentials of the
//! client.

pub(crate) mod address;
pub(crate) mod credentials;
pub(crate) mod endpoints;
pub(crate) mod socket;
pub(crate) mod stream;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod tls_error;
