//! Certificates and keys from PEM files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::settings::sections::tls::{ClientAuth, TlsSettings};

/// The protocol after the handshake.
const ALPN: &[u8] = b"http/1.1";

/// The reason why TLS cannot be served. Each message is one line that names the setting and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not there, or the server may not read it.
    #[error("{key}: {} cannot be read ({why}); name a PEM file that the server may read", .file.display())]
    Unreadable {
        /// The setting.
        key: &'static str,
        /// The file.
        file: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// A file holds nothing of what it should.
    #[error("{key}: {} holds no {what}; it must be PEM, beginning with -----BEGIN", .file.display())]
    Empty {
        /// The setting.
        key: &'static str,
        /// The file.
        file: PathBuf,
        /// The content that the file should hold.
        what: &'static str,
    },
    /// The content of a file cannot be used.
    #[error("{key}: {} cannot be used ({why}); make it anew", .file.display())]
    Unusable {
        /// The setting.
        key: &'static str,
        /// The file.
        file: PathBuf,
        /// The fault.
        why: String,
    },
    /// The time of the certificate is over.
    #[error("tls.cert: the certificate in {} expired at {at}; renew it", .file.display())]
    Expired {
        /// The file.
        file: PathBuf,
        /// The time.
        at: humantime::Rfc3339Timestamp,
    },
    /// The time of the certificate has not come.
    #[error("tls.cert: the certificate in {} is valid only from {at}; check the clock of this machine", .file.display())]
    NotYetValid {
        /// The file.
        file: PathBuf,
        /// The time.
        at: humantime::Rfc3339Timestamp,
    },
    /// The key is that of another certificate.
    #[error("tls.key: the key in {} is not that of the certificate in {}; name the two that were made together", .key.display(), .cert.display())]
    Mismatch {
        /// The file with the certificate.
        cert: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
    /// A certificate of the server's own cannot be made.
    #[error("tls.self_signed: cannot make a certificate in {} ({why}); name a folder that the server may write to", .folder.display())]
    SelfSigned {
        /// The folder.
        folder: PathBuf,
        /// The fault.
        why: String,
    },
}

impl TlsError {
    /// The setting.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Unreadable { key, .. } | Self::Empty { key, .. } | Self::Unusable { key, .. } => key,
            Self::Expired { .. } | Self::NotYetValid { .. } => "tls.cert",
            Self::Mismatch { .. } => "tls.key",
            Self::SelfSigned { .. } => "tls.self_signed",
        }
    }
}

/// Faults of the files.
pub(super) fn check(settings: &TlsSettings) -> Vec<TlsError> {
    let TlsSettings { cert, key, .. } = settings;
    let mut wrong: Vec<TlsError> = client_verifier(settings).err().into_iter().collect();
    let chain =
        |cert: &PathBuf| certificates("tls.cert", cert).and_then(|chain| check_validity(cert, &chain[0]));
    let of_each = [
        cert.as_ref().and_then(|cert| chain(cert).err()),
        key.as_ref().and_then(|key| private_key(key).err()),
    ];
    let is_each_right = of_each.iter().all(Option::is_none);
    wrong.extend(of_each.into_iter().flatten());
    if let (true, Some(cert), Some(key)) = (is_each_right, cert, key) {
        wrong.extend(server_config(cert, key, None).err());
    }
    wrong
}

/// The cryptography of rustls.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The configuration of handshakes.
pub(super) fn server_config(
    cert: &Path,
    key: &Path,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, TlsError> {
    let chain = certificates("tls.cert", cert)?;
    check_validity(cert, &chain[0])?;
    let private = private_key(key)?;
    let unusable = |why: rustls::Error| TlsError::Unusable {
        key: "tls.cert",
        file: cert.to_owned(),
        why: why.to_string(),
    };
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let knows_clients = verifier.is_some();
    let builder = match verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { cert: cert.to_owned(), key: key.to_owned() }
        }
        error => TlsError::Unusable { key: "tls.key", file: key.to_owned(), why: error.to_string() },
    })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    if knows_clients {
        // A resumed session shows the former certificate, without a new check of it.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

/// The verifier of client certificates, if the settings name CAs for them.
pub(super) fn client_verifier(
    settings: &TlsSettings,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let Some(file) = &settings.client_ca else { return Ok(None) };
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(file)?), provider());
    let verifier = match settings.client_auth {
        ClientAuth::Required => verifier,
        ClientAuth::Optional => verifier.allow_unauthenticated(),
    };
    let wrong = |why: VerifierBuilderError| TlsError::Unusable {
        key: "tls.client_ca",
        file: file.clone(),
        why: why.to_string(),
    };
    verifier.build().map(Some).map_err(wrong)
}

/// At least one.
pub(crate) fn certificates(key: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(key, file)?).collect();
    let unusable = |why| TlsError::Unusable { key, file: file.to_owned(), why };
    let certificates = read.map_err(|error| unusable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { key, file: file.to_owned(), what: "certificate" });
    }
    for certificate in &certificates {
        parse(certificate).map_err(unusable)?;
    }
    Ok(certificates)
}

fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls.client_ca", file)? {
        roots.add(certificate).map_err(|error| TlsError::Unusable {
            key: "tls.client_ca",
            file: file.to_owned(),
            why: error.to_string(),
        })?;
    }
    Ok(roots)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    use rustls::pki_types::pem::Error;
    PrivateKeyDer::from_pem_slice(&read("tls.key", file)?).map_err(|error| match error {
        Error::NoItemsFound => TlsError::Empty { key: "tls.key", file: file.to_owned(), what: "private key" },
        error => TlsError::Unusable { key: "tls.key", file: file.to_owned(), why: error.to_string() },
    })
}

fn read(key: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|why| TlsError::Unreadable { key, file: file.to_owned(), why })
}

pub(super) fn parse<'c>(certificate: &'c CertificateDer<'_>) -> Result<X509Certificate<'c>, String> {
    match X509Certificate::from_der(certificate) {
        Ok((_, parsed)) => Ok(parsed),
        Err(error) => Err(format!("no X.509 certificate: {error}")),
    }
}

fn check_validity(file: &Path, certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
    let unusable = |why| TlsError::Unusable { key: "tls.cert", file: file.to_owned(), why };
    let parsed = parse(certificate).map_err(unusable)?;
    let (begin, end) = (parsed.validity().not_before, parsed.validity().not_after);
    let now = SystemTime::now();
    let file = file.to_owned();
    if instant(end.timestamp()) < now {
        return Err(TlsError::Expired {
            file,
            at: humantime::format_rfc3339_seconds(instant(end.timestamp())),
        });
    }
    if instant(begin.timestamp()) > now {
        let at = humantime::format_rfc3339_seconds(instant(begin.timestamp()));
        return Err(TlsError::NotYetValid { file, at });
    }
    Ok(())
}

pub(super) fn instant(seconds: i64) -> SystemTime {
    // The earliest time that a certificate may name is in 1950, and any time before 1970 is long ago.
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}
