//! The byte stream below a connection: TCP, or TLS on it.

#[cfg(feature = "tls")]
use std::io;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpStream;

use super::address::Address;
use crate::remote::connect::ConnectError;

#[cfg(feature = "tls")]
pub(crate) use self::tls::{Link, Trust};

#[cfg(not(feature = "tls"))]
pub(crate) type Link = TcpStream;

/// How long a connection of an HTTP call may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects, up to the end of the TLS handshake.
pub(crate) async fn dial(address: &Address) -> Result<Link, ConnectError> {
    let unreachable = |error| ConnectError::Unreachable { address: address.to_string(), error };
    let stream = TcpStream::connect((address.host(), address.port())).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    #[cfg(feature = "tls")]
    let stream = tls::secure(stream, address).await?;
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
    pub(crate) fn new(address: &Address) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new());
        #[cfg(feature = "tls")]
        if let Some(trust) = address.trust() {
            return Self::Tls(builder.build(trust.connector(connector)));
        }
        #[cfg(not(feature = "tls"))]
        let _ = address;
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

/// Whether somebody is there, but TLS with him failed: he is not trusted, or speaks none.
#[cfg(feature = "tls")]
pub(crate) fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(why) = error {
        // An I/O error tells what is within what is within it, and not itself.
        let within = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if why.is::<rustls::Error>() || within.is_some_and(|within| is_of_tls(within)) {
            return true;
        }
        error = why.source();
    }
    false
}

#[cfg(not(feature = "tls"))]
pub(crate) fn is_of_tls(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}

/// Whether the other side refuses our certificate, or wants one: in TLS 1.3 it says so only behind the handshake, and has read nothing then.
#[cfg(feature = "tls")]
pub(crate) fn is_refusal(error: &(dyn std::error::Error + 'static)) -> bool {
    use rustls::AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, UnknownCA, UnsupportedCertificate,
    };
    let mut error = Some(error);
    while let Some(why) = error {
        let within = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if within.is_some_and(|within| is_refusal(within)) {
            return true;
        }
        if let Some(rustls::Error::AlertReceived(alert)) = why.downcast_ref() {
            return matches!(
                alert,
                AccessDenied
                    | BadCertificate
                    | CertificateExpired
                    | CertificateRequired
                    | CertificateRevoked
                    | CertificateUnknown
                    | UnknownCA
                    | UnsupportedCertificate
            );
        }
        error = why.source();
    }
    false
}

#[cfg(not(feature = "tls"))]
pub(crate) fn is_refusal(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}

#[cfg(feature = "tls")]
mod tls {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
    use hyper_util::client::legacy::connect::HttpConnector;
    use parking_lot::Mutex;
    use rustls::client::ResolvesClientCert;
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::pem::{self, PemObject};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::sign::CertifiedKey;
    use rustls::{ClientConfig, RootCertStore, SignatureScheme};
    use rustls_platform_verifier::BuilderVerifierExt;
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_util::either::Either;

    use super::super::address::Address;
    use super::is_of_tls;
    use crate::remote::connect::ConnectError;

    pub(crate) type Link = Either<TcpStream, TlsStream<TcpStream>>;

    pub(crate) type Connector = HttpsConnector<HttpConnector>;

    /// Whose certificates are believed, and which is ours.
    #[derive(Clone, Debug)]
    pub(crate) struct Trust(Arc<ClientConfig>);

    impl Trust {
        /// The CAs in that PEM file and no others, or those that the system trusts.
        pub(crate) fn new(ca: Option<&Path>, own: Option<&(PathBuf, PathBuf)>) -> Result<Self, ConnectError> {
            let wrong = |why: String| ConnectError::Ca { file: ca.map(Path::to_owned), why };
            let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| wrong(error.to_string()))?;
            let builder = match ca {
                Some(file) => builder.with_root_certificates(roots(file).map_err(wrong)?),
                None => builder.with_platform_verifier().map_err(|error| wrong(error.to_string()))?,
            };
            let config = match own {
                None => builder.with_no_client_auth(),
                Some((certificate, key)) => {
                    builder.with_client_cert_resolver(Arc::new(Own::read(certificate, key)?))
                }
            };
            Ok(Self(Arc::new(config)))
        }

        /// What HTTP calls are made over.
        pub(crate) fn connector(&self, mut http: HttpConnector) -> Connector {
            http.enforce_http(false);
            let config = ClientConfig::clone(&self.0);
            HttpsConnectorBuilder::new()
                .with_tls_config(config)
                .https_only()
                .enable_http1()
                .wrap_connector(http)
        }
    }

    /// Our certificate with its key, as their files last had them.
    #[derive(Debug)]
    struct Own {
        certificate: PathBuf,
        key: PathBuf,
        last: Mutex<Arc<CertifiedKey>>,
    }

    impl Own {
        fn read(certificate: &Path, key: &Path) -> Result<Self, ConnectError> {
            let last = Mutex::new(Arc::new(certified(certificate, key)?));
            Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), last })
        }
    }

    impl ResolvesClientCert for Own {
        /// Files that cannot be used are being written.
        fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
            let read = certified(&self.certificate, &self.key);
            let mut last = self.last.lock();
            if let Ok(read) = read {
                *last = Arc::new(read);
            }
            Some(last.clone())
        }

        fn has_certs(&self) -> bool {
            true
        }
    }

    fn certified(certificate: &Path, key: &Path) -> Result<CertifiedKey, ConnectError> {
        let wrong = |file: &Path| {
            let file = file.to_owned();
            move |why: String| ConnectError::Certificate { file, why }
        };
        let chain = certificates(certificate).map_err(wrong(certificate))?;
        let private = std::fs::read(key).map_err(|error| wrong(key)(error.to_string()))?;
        let private =
            PrivateKeyDer::from_pem_slice(&private).map_err(|error| wrong(key)(why_no_key(&error)))?;
        CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                wrong(key)(format!("it is not the key of the certificate in {}", certificate.display()))
            }
            error => wrong(key)(error.to_string()),
        })
    }

    fn why_no_key(error: &pem::Error) -> String {
        match error {
            pem::Error::NoItemsFound => "it holds no private key".to_owned(),
            error => error.to_string(),
        }
    }

    fn roots(file: &Path) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        Ok(roots)
    }

    /// At least one.
    fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
        let pem = std::fs::read(file).map_err(|error| error.to_string())?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let certificates = certificates.map_err(|error| error.to_string())?;
        if certificates.is_empty() {
            return Err(
                "it holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----".to_owned()
            );
        }
        Ok(certificates)
    }

    /// The handshake, if the address asks for one.
    pub(crate) async fn secure(stream: TcpStream, address: &Address) -> Result<Link, ConnectError> {
        let Some(Trust(config)) = address.trust() else { return Ok(Either::Left(stream)) };
        let name = ServerName::try_from(address.host().to_owned()).map_err(|error| {
            ConnectError::Untrusted { address: address.to_string(), message: error.to_string() }
        })?;
        match TlsConnector::from(config.clone()).connect(name, stream).await {
            Ok(stream) => Ok(Either::Right(stream)),
            Err(error) if is_of_tls(&error) => {
                Err(ConnectError::Untrusted { address: address.to_string(), message: error.to_string() })
            }
            Err(error) => Err(ConnectError::Unreachable { address: address.to_string(), error }),
        }
    }
}
