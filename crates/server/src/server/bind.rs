//! The address that a server listens on.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, lookup_host};

use crate::auth::Authority;

/// The reason why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Others could connect, and there is no authentication.
    #[error(
        "listen address {0}: only loopback addresses such as 127.0.0.1:7420 are allowed, as there is no authentication; \
         lockhouse key new makes a key"
    )]
    NotLoopback(String),
    /// The address means nothing.
    #[error("listen address {0}: must be HOST:PORT, such as 127.0.0.1:7420")]
    NoAddress(String),
    /// The operating system refuses.
    #[error("cannot listen on {0}: {1}{advice}", advice = advice(.1))]
    Refused(String, #[source] io::Error),
}

/// The advice where the system does not let the process listen.
fn advice(refused: &io::Error) -> &'static str {
    match refused.kind() {
        io::ErrorKind::AddrInUse => {
            "; another process listens there: end it, or choose another address with --listen"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need a privilege: choose a higher one with --listen, or give the process CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: choose one of its own with --listen"
        }
        _ => "",
    }
}

/// Listens on `HOST:PORT`, which must be a loopback address unless there is authentication; port 0 means any
/// that is free.
///
/// # Errors
///
/// [`BindError`].
pub async fn bind(listen: &str, authority: &Authority) -> Result<TcpListener, BindError> {
    let addresses: Vec<SocketAddr> = match lookup_host(listen).await {
        Ok(addresses) => addresses.collect(),
        Err(_) => return Err(BindError::NoAddress(listen.to_owned())),
    };
    if authority.is_open() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err(BindError::NotLoopback(listen.to_owned()));
    }
    TcpListener::bind(&*addresses).await.map_err(|error| BindError::Refused(listen.to_owned(), error))
}
