//! Client certificates: the identity behind one is known by a name in it, or by the whole of it.
//!
//! Names are the subject alternative names (RFC 5280, section 4.2.1.6): workloads have URIs, such as those of
//! SPIFFE, services DNS names, people e-mail addresses. The common name is not read: the name constraints of
//! a CA do not cover it.

use super::bad_settings::BadSettings;
use super::grant::CredentialGrant;
use crate::settings::sections::auth::CertificateSettings;
use crate::tls::subject::Mark;

/// The longest domain name.
const DNS_BYTES: usize = 253;

/// An entry of the settings: the identity that a certificate stands for.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) id: String,
    pub(super) mark: Mark,
    pub(super) grant: CredentialGrant,
}

impl Certificate {
    /// As the entry at that place says.
    pub(super) fn new(settings: &CertificateSettings, place: &str) -> Result<Self, BadSettings> {
        let CertificateSettings { id, tenant, session, buckets, .. } = settings;
        let grant = CredentialGrant::new(tenant, session.as_deref(), buckets, place)?;
        Ok(Self { id: id.clone(), mark: Mark::new(settings, place)?, grant })
    }
}

impl Mark {
    fn new(settings: &CertificateSettings, place: &str) -> Result<Self, BadSettings> {
        let CertificateSettings { dns, uri, email, sha256, .. } = settings;
        let (mark, member, value, rule) = match (dns, uri, email, sha256) {
            (Some(name), None, None, None) => {
                (is_dns(name).then(|| Self::dns(name)), "dns", name, "a domain name without *")
            }
            (None, Some(uri), None, None) => {
                let rule = "a URI with its scheme, such as spiffe://acme.example/billing";
                (is_uri(uri).then(|| Self::Uri(uri.clone())), "uri", uri, rule)
            }
            (None, None, Some(address), None) => {
                let rule = "an e-mail address, such as ada@acme.example";
                (is_email(address).then(|| Self::email(address)), "email", address, rule)
            }
            (None, None, None, Some(hex)) => {
                let rule = "32 bytes in hexadecimal, with or without colons, as openssl x509 -fingerprint -sha256 prints them";
                (sha256_of(hex).map(Self::Sha256), "sha256", hex, rule)
            }
            _ => {
                let why = "exactly one of dns, uri, email and sha256 must be there".to_owned();
                return Err(BadSettings { field: place.to_owned(), why });
            }
        };
        mark.ok_or_else(|| BadSettings {
            field: format!("{place}.{member}"),
            why: format!("is {value:?}, but must be {rule}"),
        })
    }

    /// The member of the settings that the mark stands in.
    pub(super) fn member(&self) -> &'static str {
        match self {
            Self::Dns(_) => "dns",
            Self::Uri(_) => "uri",
            Self::Email(_) => "email",
            Self::Sha256(_) => "sha256",
        }
    }
}

/// A wildcard names servers, and no client.
fn is_dns(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= DNS_BYTES && name.split('.').all(is_label)
}

fn is_uri(uri: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    };
    let parts = uri.split_once(':');
    parts.is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
        && uri.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_email(address: &str) -> bool {
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain && address.rsplit_once('@').is_some_and(|(local, host)| !local.is_empty() && is_dns(host))
}

fn sha256_of(text: &str) -> Option<[u8; 32]> {
    let pairs: Vec<&str> = if text.contains(':') {
        text.split(':').collect()
    } else {
        (0..text.len()).step_by(2).map(|at| text.get(at..at + 2)).collect::<Option<_>>()?
    };
    let byte = |pair: &str| {
        let is_pair = pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_pair { u8::from_str_radix(pair, 16).ok() } else { None }
    };
    pairs.into_iter().map(byte).collect::<Option<Vec<_>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::collections::BTreeMap;

    use rcgen::{CertificateParams, KeyPair, SanType};
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;
    use crate::settings::Permission;
    use crate::tls::subject::Subject;

    fn entry() -> CertificateSettings {
        CertificateSettings {
            id: "ci".to_owned(),
            dns: None,
            uri: None,
            email: None,
            sha256: None,
            tenant: "acme".to_owned(),
            session: None,
            buckets: BTreeMap::from([("*".to_owned(), vec![Permission::Query])]),
        }
    }

    fn with(member: &str, value: &str) -> CertificateSettings {
        let mut entry = entry();
        let place = match member {
            "dns" => &mut entry.dns,
            "uri" => &mut entry.uri,
            "email" => &mut entry.email,
            _ => &mut entry.sha256,
        };
        *place = Some(value.to_owned());
        entry
    }

    fn subject(names: Vec<SanType>) -> (Subject, String) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "common.example");
        params.subject_alt_names = names;
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let fingerprint = crate::tls::fingerprint(certificate.pem().as_bytes()).unwrap();
        let parsed = X509Certificate::from_der(certificate.der()).unwrap().1;
        (Subject::of(certificate.der(), &parsed), fingerprint)
    }

    fn is_for(settings: &CertificateSettings, subject: &Subject) -> bool {
        subject.has(&Certificate::new(settings, "auth.certificates[0]").unwrap().mark)
    }

    #[test]
    fn a_certificate_is_known_by_each_of_its_names_and_by_the_whole_of_it() {
        let (subject, fingerprint) = subject(vec![
            SanType::DnsName("Worker.Acme.example".try_into().unwrap()),
            SanType::DnsName("*.wild.example".try_into().unwrap()),
            SanType::URI("spiffe://acme.example/Billing".try_into().unwrap()),
            SanType::Rfc822Name("Ada@Acme.example".try_into().unwrap()),
            SanType::Rfc822Name("eve@acme.example\0.evil.example".try_into().unwrap()),
        ]);
        let is_for = |member: &str, value: &str| is_for(&with(member, value), &subject);
        assert!(is_for("dns", "worker.acme.EXAMPLE"));
        assert!(is_for("uri", "spiffe://acme.example/Billing"));
        assert!(is_for("email", "Ada@acme.Example"));
        assert!(is_for("sha256", &fingerprint));
        assert!(is_for("sha256", &fingerprint.replace(':', "").to_lowercase()));
        for (member, value) in [
            ("dns", "acme.example"),
            ("dns", "a.wild.example"),
            ("dns", "common.example"),
            ("uri", "spiffe://acme.example/billing"),
            ("uri", "spiffe://acme.example/Billing/x"),
            ("email", "ada@acme.example"),
            ("email", "eve@acme.example"),
            ("sha256", &"00".repeat(32)),
        ] {
            assert!(!is_for(member, value), "{member} {value}");
        }
    }

    #[test]
    fn a_name_of_one_kind_is_none_of_another() {
        let (subject, _) = subject(vec![SanType::URI("dns:worker.example".try_into().unwrap())]);
        assert!(!is_for(&with("dns", "worker.example"), &subject));
        assert!(is_for(&with("uri", "dns:worker.example"), &subject));
    }

    #[test]
    fn an_entry_has_one_mark_that_can_be_one() {
        let refused = |settings: &CertificateSettings| Certificate::new(settings, "p").unwrap_err();
        assert_eq!(refused(&entry()).field, "p");
        let two = CertificateSettings { uri: Some("a:b".to_owned()), ..with("dns", "a.example") };
        assert!(refused(&two).why.contains("exactly one of dns, uri, email and sha256"));
        for (member, value) in [
            ("dns", ""),
            ("dns", "*.acme.example"),
            ("dns", "a..b"),
            ("dns", "a b"),
            ("uri", "/billing"),
            ("uri", "spiffe:"),
            ("uri", "1:a"),
            ("uri", "a:ä"),
            ("email", "ada"),
            ("email", "@acme.example"),
            ("email", "ada@*"),
            ("sha256", "00"),
            ("sha256", &"0".repeat(63)),
            ("sha256", &"g0".repeat(32)),
            ("sha256", &"ä".repeat(32)),
            ("sha256", &vec!["0"; 64].join(":")),
        ] {
            let error = refused(&with(member, value));
            assert_eq!(error.field, format!("p.{member}"), "{value}");
            assert!(error.why.contains("must be"), "{error}");
        }
    }
}
