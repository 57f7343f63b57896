//! A CA, the certificate of the server, and those of clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use lockhouse_server::{ClientAuth, TlsSettings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::world::PATIENCE;

/// Signs everything here.
pub(super) struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The way in which a credential connects: with a certificate of its own, or without.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) tls: Arc<ClientConfig>,
    pub(super) http: reqwest::Client,
}

impl Ca {
    pub(super) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "the CA of the matrix");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Puts into the folder what the server speaks TLS with, and takes the certificates of clients by.
    pub(super) fn settings(&self, folder: &Path) -> Result<TlsSettings> {
        let (certificate, key) = self.sign(SanType::IpAddress([127, 0, 0, 1].into()))?;
        let file = |name: &str, text: String| -> Result<PathBuf> {
            let file = folder.join(name);
            std::fs::write(&file, text)?;
            Ok(file)
        };
        Ok(TlsSettings {
            cert: Some(file("server.pem", certificate)?),
            key: Some(file("server.key", key)?),
            client_ca: Some(file("ca.pem", self.issuer.pem())?),
            client_auth: ClientAuth::Optional,
            ..TlsSettings::default()
        })
    }

    /// A client without a certificate.
    pub(super) fn stranger(&self) -> Result<Client> {
        self.client(None)
    }

    /// A client with a new certificate that has this name in it.
    pub(super) fn known_as(&self, uri: &str) -> Result<Client> {
        self.client(Some(self.sign(SanType::URI(uri.try_into()?))?))
    }

    fn client(&self, own: Option<(String, String)>) -> Result<Client> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone())?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let tls = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?
            }
        };
        let http = reqwest::Client::builder().tls_backend_preconfigured(tls.clone());
        let http = http.timeout(PATIENCE).no_proxy().build().context("a client of HTTP is made")?;
        Ok(Client { tls: Arc::new(tls), http })
    }

    /// A certificate and its key, in PEM.
    fn sign(&self, name: SanType) -> Result<(String, String)> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }
}
