//! The certificate that a client showed, and whether it is still good.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::config::Tls;
use super::files::{instant, parse};
use super::subject::Subject;

/// A certificate that was found good in the handshake.
pub(crate) struct ClientCertificate {
    pub(crate) subject: Subject,
    /// The end of its validity.
    pub(crate) expires_at: SystemTime,
    /// As it was shown, its own first.
    chain: Vec<CertificateDer<'static>>,
    tls: Tls,
    /// The configuration that verified it last.
    good_by: Mutex<Arc<ServerConfig>>,
}

/// The reason why a certificate is not good any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotGood {
    #[error("the certificate has expired")]
    Expired,
    #[error("the certificate is of no CA that the server takes now")]
    Untrusted,
}

impl ClientCertificate {
    /// The certificate of a connection whose handshake was made by `config`; nothing if none was shown.
    pub(super) fn of(tls: &Tls, config: &Arc<ServerConfig>, stream: &TlsStream<TcpStream>) -> Option<Self> {
        Self::good_by(tls, config, stream.get_ref().1.peer_certificates()?)
    }

    /// The certificate that another node has seen in a handshake; nothing if it is not good here.
    pub(crate) fn seen_elsewhere(tls: &Tls, chain: &[CertificateDer<'static>]) -> Option<Self> {
        let (config, verifier) = tls.current();
        let (own, between) = chain.split_first()?;
        verifier?.verify_client_cert(own, between, UnixTime::now()).ok()?;
        Self::good_by(tls, &config, chain)
    }

    fn good_by(tls: &Tls, config: &Arc<ServerConfig>, chain: &[CertificateDer<'static>]) -> Option<Self> {
        let own = chain.first()?;
        let parsed = parse(own).ok()?;
        Some(Self {
            subject: Subject::of(own, &parsed),
            expires_at: instant(parsed.validity().not_after.timestamp()),
            chain: chain.to_vec(),
            tls: tls.clone(),
            good_by: Mutex::new(config.clone()),
        })
    }

    /// As it was shown, its own first.
    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Whether a new handshake would find it good, too: time goes on, and the CAs may have been changed.
    pub(crate) fn check(&self) -> Result<(), NotGood> {
        if self.expires_at <= SystemTime::now() {
            return Err(NotGood::Expired);
        }
        let (config, verifier) = self.tls.current();
        let mut good_by = self.good_by.lock();
        if !Arc::ptr_eq(&good_by, &config) {
            let (own, between) = self.chain.split_first().ok_or(NotGood::Untrusted)?;
            let verifier = verifier.ok_or(NotGood::Untrusted)?;
            let verified = verifier.verify_client_cert(own, between, UnixTime::now());
            verified.map_err(|_| NotGood::Untrusted)?;
            *good_by = config;
        }
        Ok(())
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").field("subject", &self.subject).finish_non_exhaustive()
    }
}
