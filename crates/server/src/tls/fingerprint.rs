//! The fingerprint of a certificate.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

/// The SHA-256 of a certificate, as browsers and OpenSSL show it: the first one of a PEM file.
pub fn fingerprint(pem: &[u8]) -> Option<String> {
    let certificate = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let bytes: Vec<String> = Sha256::digest(&certificate).iter().map(|byte| format!("{byte:02X}")).collect();
    Some(bytes.join(":"))
}
