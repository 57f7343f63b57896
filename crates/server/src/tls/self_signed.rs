//! A certificate of one's own, to try TLS out.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::files::{TlsError, server_config};

/// The name of the certificate in the folder.
const CERT: &str = "lockhouse-self-signed.pem";
const KEY: &str = "lockhouse-self-signed.key";

/// The validity of the certificate.
const VALIDITY: Duration = Duration::from_secs(365 * 86_400);

/// The names that the certificate is for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The certificate and its key in that folder: those that are there, as clients may trust them already, or
/// new ones.
pub(super) fn in_folder(folder: &Path) -> Result<(PathBuf, PathBuf), TlsError> {
    let (cert, key) = (folder.join(CERT), folder.join(KEY));
    if server_config(&cert, &key, None).is_err() {
        let failed = |why: String| TlsError::SelfSigned { folder: folder.to_owned(), why };
        let (cert_pem, key_pem) = make().map_err(|error| failed(error.to_string()))?;
        // The key first, so that there is never a certificate without one.
        write(&key, 0o600, &key_pem).map_err(|error| failed(error.to_string()))?;
        write(&cert, 0o644, &cert_pem).map_err(|error| failed(error.to_string()))?;
    }
    Ok((cert, key))
}

fn make() -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "lockhouse, self-signed");
    let now = SystemTime::now();
    // Clocks differ.
    params.not_before = (now - Duration::from_secs(3600)).into();
    params.not_after = (now + VALIDITY).into();
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Writes in place of a present file, with that mode from the first byte on.
fn write(file: &Path, mode: u32, text: &str) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    file.write_all(text.as_bytes())
}
