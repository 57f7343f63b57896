//! The addresses that a server listens on.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::slice;

use tokio::net::{TcpListener, TcpSocket, lookup_host};

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
    /// The address means nothing, or its host has no address.
    #[error(
        "listen address {0}: must be HOST:PORT of a host that is known here, such as 127.0.0.1:7420 or [::1]:7420"
    )]
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

/// The sockets that a server listens on: several where a name such as `localhost` has several addresses.
#[derive(Debug)]
pub struct Listener(Vec<TcpListener>);

impl Listener {
    /// The first address.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no socket");
        self.0.first().ok_or_else(none)?.local_addr()
    }

    /// Every address.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.0.iter().map(TcpListener::local_addr).collect()
    }

    pub(super) fn sockets(&self) -> slice::Iter<'_, TcpListener> {
        self.0.iter()
    }
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Self(vec![socket])
    }
}

/// The addresses of a server that does not listen yet: a client that connects is refused at once, and tries
/// the next server.
#[derive(Debug)]
pub struct Reserved {
    /// The setting.
    listen: String,
    sockets: Vec<TcpSocket>,
}

impl Reserved {
    /// The first address.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no socket");
        self.sockets.first().ok_or_else(none)?.local_addr()
    }

    /// Listens.
    ///
    /// # Errors
    ///
    /// [`BindError::Refused`].
    pub fn listen(self) -> Result<Listener, BindError> {
        let Self { listen, sockets } = self;
        let listening = sockets.into_iter().map(|socket| socket.listen(BACKLOG)).collect::<io::Result<_>>();
        listening.map(Listener).map_err(|error| BindError::Refused(listen, error))
    }
}

/// The number of connections that may wait until they are accepted; the system may allow fewer.
const BACKLOG: u32 = 1024;

/// Listens on the addresses of [`reserve`].
///
/// # Errors
///
/// [`BindError`].
pub async fn bind(listen: &str, authority: &Authority) -> Result<Listener, BindError> {
    reserve(listen, authority).await?.listen()
}

/// Takes `HOST:PORT`, on each address of the host, which must be loopback addresses unless there is
/// authentication; port 0 means any that is free. Addresses of a family that this machine does not have are
/// left out.
///
/// # Errors
///
/// [`BindError`].
pub async fn reserve(listen: &str, authority: &Authority) -> Result<Reserved, BindError> {
    let addresses = addresses(listen).await?;
    if authority.is_open() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err(BindError::NotLoopback(listen.to_owned()));
    }
    reserve_each(listen, addresses)
}

/// As [`bind`], of any addresses, for [`serve_metrics`](crate::Server::serve_metrics).
///
/// # Errors
///
/// [`BindError`].
pub async fn bind_metrics(listen: &str) -> Result<Listener, BindError> {
    reserve_metrics(listen).await?.listen()
}

/// As [`reserve`], of any addresses, for [`serve_metrics`](crate::Server::serve_metrics).
///
/// # Errors
///
/// [`BindError`].
pub async fn reserve_metrics(listen: &str) -> Result<Reserved, BindError> {
    reserve_each(listen, addresses(listen).await?)
}

/// Each address of the host once.
async fn addresses(listen: &str) -> Result<Vec<SocketAddr>, BindError> {
    let mut addresses: Vec<SocketAddr> = match lookup_host(listen).await {
        Ok(addresses) => addresses.collect(),
        Err(_) => return Err(BindError::NoAddress(listen.to_owned())),
    };
    addresses.extend(loopbacks(listen));
    let mut seen = HashSet::new();
    addresses.retain(|address| seen.insert(*address));
    Ok(addresses)
}

fn reserve_each(listen: &str, addresses: Vec<SocketAddr>) -> Result<Reserved, BindError> {
    let refused = |error| BindError::Refused(listen.to_owned(), error);
    let (mut sockets, mut missing) = (Vec::<TcpSocket>::new(), None);
    for mut address in addresses {
        // The same port for all of them, which for the others has to be free as well.
        if let Some(first) = sockets.first().filter(|_| address.port() == 0) {
            address.set_port(first.local_addr().map_err(refused)?.port());
        }
        match socket_of(address) {
            Ok(socket) => sockets.push(socket),
            Err(error) if is_of_no_family(&error) => missing = Some(error),
            Err(error) => return Err(refused(error)),
        }
    }
    match missing {
        Some(error) if sockets.is_empty() => Err(refused(error)),
        _ if sockets.is_empty() => Err(BindError::NoAddress(listen.to_owned())),
        _ => Ok(Reserved { listen: listen.to_owned(), sockets }),
    }
}

fn socket_of(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that is started again takes the address of the one before at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// What clients take `localhost` for, whatever the system says of it (RFC 6761).
fn loopbacks(listen: &str) -> Vec<SocketAddr> {
    let both = |port| [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    let port = match listen.rsplit_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => port.parse().ok(),
        _ => None,
    };
    port.map(both).into_iter().flatten().collect()
}

/// Whether the machine has no address of that kind, such as of IPv6.
fn is_of_no_family(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}
