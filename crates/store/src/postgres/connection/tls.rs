//! TLS to the database, with what libpq verifies in each `sslmode`.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Roots, Security};
use crate::postgres::error::PostgresOpenError;

/// The way to secure connections; none if they are never.
pub(crate) fn connector(security: &Security) -> Result<Option<MakeRustlsConnect>, PostgresOpenError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match security {
        Security::Plain => return Ok(None),
        Security::Unverified => Arc::new(Lenient { provider: provider.clone(), authority: None }),
        Security::Authority(roots) => {
            let authority = Some(verifier(roots, &provider)?);
            Arc::new(Lenient { provider: provider.clone(), authority })
        }
        Security::Full(roots) => verifier(roots, &provider)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(None, &error))?;
    let mut config = config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn verifier(
    roots: &Roots,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, PostgresOpenError> {
    let Some(path) = roots.file() else {
        let system = Verifier::new(provider.clone()).map_err(|error| unusable(Some("system"), &error))?;
        return Ok(Arc::new(system));
    };
    let shown = path.display().to_string();
    let unusable = |error: &dyn ToString| unusable(Some(&shown), error);
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))?;
    let mut store = RootCertStore::empty();
    for certificate in certificates {
        store.add(certificate.map_err(|error| unusable(&error))?).map_err(|error| unusable(&error))?;
    }
    if store.is_empty() {
        return Err(unusable(&"it has no certificate"));
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone());
    Ok(builder.build().map_err(|error| unusable(&error))?)
}

fn unusable(file: Option<&str>, why: &dyn ToString) -> PostgresOpenError {
    PostgresOpenError::Option {
        option: "sslrootcert",
        value: format!("{} ({})", file.unwrap_or("unset"), why.to_string()).into(),
        rule: "a file of PEM certificates, or \"system\"",
    }
}

/// Believes less strictly than a page would: any certificate, or one of these authorities for whatever name.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    /// None for `prefer` and `require`, which verify nothing; that of the authorities for `verify-ca`.
    authority: Option<Arc<dyn ServerCertVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is looked at last, once the rest is verified.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
