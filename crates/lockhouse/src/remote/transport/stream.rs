//! The byte stream below a connection: TCP, or TLS on it.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::client::TlsStream;
#[cfg(feature = "tls")]
use tokio_util::either::Either;

use super::address::Address;
use super::endpoints::Endpoints;
use crate::remote::error::ConnectError;
#[cfg(feature = "tls")]
use crate::remote::transport::tls;

#[cfg(feature = "tls")]
pub(crate) type Link = Either<TcpStream, TlsStream<TcpStream>>;

#[cfg(not(feature = "tls"))]
pub(crate) type Link = TcpStream;

/// Connects, up to the end of the TLS handshake.
pub(crate) async fn dial(address: &Address) -> Result<Link, ConnectError> {
    let unreachable = |error| ConnectError::Unreachable { address: address.to_string(), error };
    let stream = TcpStream::connect((address.host(), address.port())).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    #[cfg(feature = "tls")]
    let stream = match address.trust() {
        Some(trust) => Either::Right(trust.secure(stream, address.host(), &address.to_string()).await?),
        None => Either::Left(stream),
    };
    Ok(stream)
}

/// Makes HTTP calls, over connections that it keeps for later ones.
#[derive(Clone)]
pub(crate) enum HttpClient {
    Plain(Client<HttpConnector, Full<Bytes>>),
    #[cfg(feature = "tls")]
    Tls(Client<tls::Connector, Full<Bytes>>),
}

impl HttpClient {
    pub(crate) fn new(endpoints: &Endpoints) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(endpoints.patience()));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new());
        #[cfg(feature = "tls")]
        if let Some(trust) = endpoints.first().trust() {
            return Self::Tls(builder.build(trust.connector(connector)));
        }
        Self::Plain(builder.build(connector))
    }

    pub(crate) async fn request(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        match self {
            Self::Plain(client) => client.request(request).await,
            #[cfg(feature = "tls")]
            Self::Tls(client) => client.request(request).await,
        }
    }
}
