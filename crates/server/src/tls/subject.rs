//! The marks of a certificate.

use std::fmt;

use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

/// A mark by which a certificate is known, in the form in which it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Dns(String),
    Uri(String),
    Email(String),
    /// Of the whole certificate.
    Sha256([u8; 32]),
}

/// All marks of one certificate.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Subject(Vec<Mark>);

impl Subject {
    /// The marks of the certificate; `der` is the whole of it.
    pub(crate) fn of(der: &[u8], certificate: &X509Certificate<'_>) -> Self {
        // A certificate with two lists of names is read as one without names.
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let marks = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(Mark::dns(name)),
            GeneralName::URI(uri) => Some(Mark::Uri((*uri).to_owned())),
            GeneralName::RFC822Name(address) => Some(Mark::email(address)),
            _ => None,
        });
        Self(marks.chain([Mark::Sha256(Sha256::digest(der).into())]).collect())
    }

    /// Whether that is one of its marks.
    pub(crate) fn has(&self, mark: &Mark) -> bool {
        self.0.contains(mark)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl Mark {
    /// RFC 5280, section 7.2: capitals make no difference.
    pub(crate) fn dns(name: &str) -> Self {
        Self::Dns(name.to_ascii_lowercase())
    }

    /// RFC 5280, section 7.5: capitals make a difference before the last `@`.
    pub(crate) fn email(address: &str) -> Self {
        let (local, host) = address.rsplit_once('@').unwrap_or(("", address));
        Self::Email(format!("{local}@{}", host.to_ascii_lowercase()))
    }
}
