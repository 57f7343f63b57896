//! TLS: the certificates that are trusted, and the one that is ours.

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

use crate::remote::error::ConnectError;
use crate::remote::transport::tls_error::{is_of_tls, remedy};

pub(crate) type Connector = HttpsConnector<HttpConnector>;

/// The certificates that are trusted, and the one that is ours.
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

    /// The connector for HTTP calls.
    pub(crate) fn connector(&self, mut http: HttpConnector) -> Connector {
        http.enforce_http(false);
        let config = ClientConfig::clone(&self.0);
        HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().wrap_connector(http)
    }

    /// The handshake with the server of that host, which errors call `address`.
    pub(crate) async fn secure(
        &self,
        stream: TcpStream,
        host: &str,
        address: &str,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        let untrusted = |message: String| ConnectError::Untrusted { address: address.to_owned(), message };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| untrusted(error.to_string()))?;
        match TlsConnector::from(self.0.clone()).connect(name, stream).await {
            Ok(stream) => Ok(stream),
            Err(error) if is_of_tls(&error) => {
                Err(untrusted(remedy(&error).unwrap_or_else(|| error.to_string())))
            }
            Err(error) => Err(ConnectError::Unreachable { address: address.to_owned(), error }),
        }
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
    let private = PrivateKeyDer::from_pem_slice(&private).map_err(|error| wrong(key)(why_no_key(&error)))?;
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
