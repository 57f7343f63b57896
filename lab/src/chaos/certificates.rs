//! The certificates of the database: an authority of the run's own, and those of both servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::FOLDER;
use super::network::{DATABASES, address};
use crate::cluster::postgres::Account;

/// The authority that signs from now on.
pub(super) struct DatabaseCertificates {
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// The file with the authorities that the nodes believe.
pub(super) fn authorities() -> PathBuf {
    PathBuf::from(FOLDER).join("authorities.pem")
}

/// The certificate and the key of a server.
pub(super) fn of_server(host: &str) -> [PathBuf; 2] {
    ["pem", "key"].map(|end| PathBuf::from(FOLDER).join(format!("{host}.{end}")))
}

impl DatabaseCertificates {
    /// The first ones.
    pub(super) fn new() -> Result<Self> {
        let certificates = Self { authority: authority()? };
        write(&authorities(), &certificates.authority.pem())?;
        certificates.sign()?;
        Ok(certificates)
    }

    /// Nodes believe another authority as well, which signs from now on.
    pub(super) fn add_authority(&mut self) -> Result<()> {
        let former = std::mem::replace(&mut self.authority, authority()?);
        write(&authorities(), &(former.pem() + &self.authority.pem()))
    }

    /// Nodes believe no other authority any more.
    pub(super) fn drop_former(&self) -> Result<()> {
        write(&authorities(), &self.authority.pem())
    }

    /// Each server has a new certificate with its next start, or once it reads its settings again.
    pub(super) fn sign(&self) -> Result<()> {
        for host in DATABASES {
            let key = KeyPair::generate()?;
            let params = CertificateParams::new(vec![address(host)])?;
            let certificate = params.signed_by(&key, &self.authority)?;
            let [certificate_file, key_file] = of_server(host);
            write(&key_file, &key.serialize_pem())?;
            write(&certificate_file, &certificate.pem())?;
        }
        Ok(())
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

/// Whole or not at all, as a process may read it at any time. PostgreSQL reads keys of its own account only.
fn write(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    Account::for_servers().iter().for_each(|account| account.owns(&new));
    Ok(fs::rename(new, path)?)
}
