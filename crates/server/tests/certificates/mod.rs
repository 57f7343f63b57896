//! A CA for one test, and what it signs.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType,
};
use traces::Kind;

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// The files of a certificate and its key.
pub(crate) struct Files {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Ca {
    /// One whose certificate is in `NAME.pem` there.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join(format!("{name}.pem")), issuer.pem()).unwrap();
        Self { issuer, folder: folder.to_owned() }
    }

    /// For localhost and 127.0.0.1, from yesterday to tomorrow, in `NAME.pem` and `NAME.key`.
    pub(crate) fn sign(&self, name: &str) -> Files {
        let now = SystemTime::now();
        self.sign_for(name, &["localhost", "127.0.0.1"], now - DAY, now + DAY)
    }

    /// One that expired yesterday.
    pub(crate) fn sign_expired(&self, name: &str) -> Files {
        let now = SystemTime::now();
        self.sign_for(name, &["localhost"], now - 2 * DAY, now - DAY)
    }

    /// One that is valid from tomorrow.
    pub(crate) fn sign_early(&self, name: &str) -> Files {
        let now = SystemTime::now();
        self.sign_for(name, &["localhost"], now + DAY, now + 2 * DAY)
    }

    /// One for those names.
    pub(crate) fn sign_names(&self, name: &str, names: &[&str]) -> Files {
        let now = SystemTime::now();
        self.sign_for(name, names, now - DAY, now + DAY)
    }

    /// One of a client that is known by this URI.
    pub(crate) fn sign_uri(&self, name: &str, uri: &str) -> Files {
        let end = SystemTime::now() + DAY;
        self.sign_uri_until(name, uri, end)
    }

    /// The same, up to that second.
    pub(crate) fn sign_uri_until(&self, name: &str, uri: &str, end: SystemTime) -> Files {
        self.sign_with(name, vec![SanType::URI(uri.try_into().unwrap())], SystemTime::now() - DAY, end)
    }

    /// One of a client that is known by this e-mail address.
    pub(crate) fn sign_email(&self, name: &str, address: &str) -> Files {
        let now = SystemTime::now();
        self.sign_with(name, vec![SanType::Rfc822Name(address.try_into().unwrap())], now - DAY, now + DAY)
    }

    /// One for those names and that time.
    pub(crate) fn sign_for(&self, name: &str, names: &[&str], begin: SystemTime, end: SystemTime) -> Files {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let names = CertificateParams::new(names).unwrap().subject_alt_names;
        self.sign_with(name, names, begin, end)
    }

    fn sign_with(&self, name: &str, names: Vec<SanType>, begin: SystemTime, end: SystemTime) -> Files {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = begin.into();
        params.not_after = end.into();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let files = Files { cert: format!("{name}.pem"), key: format!("{name}.key") };
        traces::secret(Kind::PrivateKey, &key.serialize_pem());
        fs::write(self.folder.join(&files.key), key.serialize_pem()).unwrap();
        fs::write(self.folder.join(&files.cert), cert.pem()).unwrap();
        files
    }
}
