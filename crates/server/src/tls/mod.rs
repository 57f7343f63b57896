//! TLS on the listener, for WebSockets and HTTP alike: TLS 1.2 and 1.3 as rustls has them.
//!
//! Every handshake begins with what was loaded last, so that a new certificate is shown to new connections and touches no old one.

mod client;
mod files;
mod self_signed;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, HeaderValue};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) use self::client::{ClientCertificate, NotGood, Shown};
pub use self::files::TlsError;
use crate::access::is_for_loopback;
use crate::bounds::FAREWELL_TIMEOUT;
use crate::settings::TlsSettings;

/// What is answered to a client that speaks no TLS.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 36\r\n\
                     connection: close\r\n\r\nthis server speaks TLS: use https://";

/// No more is read of a connection that ends.
const UNWANTED_BYTES: u64 = 64 << 10;

/// A certificate with its key and what belongs to them, all of which can be loaded anew.
#[derive(Clone)]
pub struct Tls {
    current: Arc<RwLock<Loaded>>,
}

#[derive(Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// What judges the certificates of clients, if they are asked for any.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// What they were loaded for.
    settings: TlsSettings,
    files: Files,
    hsts: Option<HeaderValue>,
}

/// The files that were read, and how they were then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files(Vec<(PathBuf, Option<(SystemTime, u64)>)>);

impl Tls {
    /// Loads what the settings name; nothing if they ask for no TLS.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn load(settings: &TlsSettings) -> Result<Option<Self>, TlsError> {
        let loaded = Loaded::of(settings)?;
        Ok(loaded.map(|loaded| Self { current: Arc::new(RwLock::new(loaded)) }))
    }

    /// What is wrong with each of the files that the settings name. What would be made at the start is not made.
    pub fn check(settings: &TlsSettings) -> Vec<TlsError> {
        files::check(settings)
    }

    /// Shows what another one has loaded to all connections that come; those that are there are not touched.
    pub fn renew(&self, other: &Self) {
        let other = other.current.read().clone();
        *self.current.write() = other;
    }

    /// Reads the files that it was loaded from again. If they cannot be used, all stays as it is, and they count as read until they change
    /// again.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn read_again(&self) -> Result<(), TlsError> {
        let settings = self.current.read().settings.clone();
        let files = self.files().now();
        let loaded = Loaded::of(&settings);
        let mut current = self.current.write();
        current.files = files;
        if let Some(loaded) = loaded? {
            *current = loaded;
        }
        Ok(())
    }

    /// The files that are in use, as they were when they were read.
    pub fn files(&self) -> Files {
        self.current.read().files.clone()
    }

    /// What browsers are told: to come by TLS only, unless they came to this machine by a loopback name, as other programs of it share that.
    pub(crate) fn hsts(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if is_for_loopback(headers) { None } else { self.current.read().hsts.clone() }
    }

    /// What handshakes are made by, and what judges the certificates of clients in them.
    fn judge(&self) -> (Arc<ServerConfig>, Option<Arc<dyn ClientCertVerifier>>) {
        let current = self.current.read();
        (current.config.clone(), current.verifier.clone())
    }

    /// The handshake, which has to end in time; with the certificate that the client showed.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        limit: Duration,
    ) -> io::Result<(TlsStream<TcpStream>, Option<ClientCertificate>)> {
        let config = self.current.read().config.clone();
        let handshake = async {
            let mut first = [0];
            // No TLS record begins with a letter, every HTTP request does.
            if stream.peek(&mut first).await? == 1 && first[0].is_ascii_alphabetic() {
                refuse_plain(stream).await?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks no TLS"));
            }
            match TlsAcceptor::from(config.clone()).accept(stream).into_fallible().await {
                Ok(stream) => {
                    let certificate = ClientCertificate::of(self, &config, &stream);
                    Ok((stream, certificate))
                }
                // The client has been told why, and may be sending its first request.
                Err((error, stream)) => {
                    _ = see_off(stream).await;
                    Err(error)
                }
            }
        };
        timeout(limit, handshake).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Says what is spoken here.
async fn refuse_plain(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(PLAIN.as_bytes()).await?;
    see_off(stream).await
}

/// Ends a connection, but reads what the client still sends: a close over unread bytes could take the last words away.
async fn see_off(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = stream.take(UNWANTED_BYTES);
    // Whoever sends on is not waited for.
    _ = timeout(FAREWELL_TIMEOUT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    Ok(())
}

impl Loaded {
    fn of(settings: &TlsSettings) -> Result<Option<Self>, TlsError> {
        let (cert, key) = match (&settings.cert, &settings.key, &settings.self_signed) {
            (Some(cert), Some(key), _) => (cert.clone(), key.clone()),
            (_, _, Some(folder)) => self_signed::in_folder(folder)?,
            _ => return Ok(None),
        };
        // Before they are read, so that what is written meanwhile is a change.
        let files = Files::of([&cert, &key].into_iter().chain(&settings.client_ca));
        let verifier = files::client_verifier(settings)?;
        let config = Arc::new(files::server_config(&cert, &key, verifier.clone())?);
        // Who merely tries it out shall not be kept from plain HTTP for half a year.
        let is_for_long = settings.self_signed.is_none() && settings.hsts >= Duration::from_secs(1);
        let hsts = is_for_long.then(|| format!("max-age={}", settings.hsts.as_secs()));
        let hsts = hsts.and_then(|hsts| HeaderValue::try_from(hsts).ok());
        Ok(Some(Self { config, verifier, settings: settings.clone(), files, hsts }))
    }
}

impl Files {
    fn of<'f>(files: impl Iterator<Item = &'f PathBuf>) -> Self {
        let state = |file: &PathBuf| {
            let metadata = std::fs::metadata(file).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        Self(files.map(|file| (file.clone(), state(file))).collect())
    }

    /// How they are now.
    pub fn now(&self) -> Self {
        Self::of(self.0.iter().map(|(file, _)| file))
    }

    /// The file with the certificate.
    pub fn cert(&self) -> Option<&PathBuf> {
        self.0.first().map(|(file, _)| file)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files()).finish_non_exhaustive()
    }
}

/// The SHA-256 of a certificate, as browsers and OpenSSL show it: the first one of a PEM file.
pub fn fingerprint(pem: &[u8]) -> Option<String> {
    let certificate = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let bytes: Vec<String> = Sha256::digest(&certificate).iter().map(|byte| format!("{byte:02X}")).collect();
    Some(bytes.join(":"))
}
