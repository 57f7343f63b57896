//! The certificate of the server: how long it is valid, for which names, and by whom it was signed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockhouse_server::{Settings, Tls};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::diagnosis::Diagnosis;

const NAME: &str = "certificates";

/// A certificate that expires sooner is a warning.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// What the server would refuse at its start was found with the settings; this is what else may be wrong.
pub(super) fn check(settings: &Settings, diagnosis: &mut Diagnosis) {
    let tls = &settings.tls;
    if tls.self_signed.is_some() {
        let found = "a self-signed certificate of the server's own making, which clients have to be given";
        return diagnosis.ok(NAME, found);
    }
    let Some(file) = &tls.cert else {
        return diagnosis.ok_unless_found(NAME, "the server speaks no TLS");
    };
    if Tls::check(tls).is_empty() {
        let read = |file: &Path| {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            read.unwrap_or_default()
        };
        let chain = read(file);
        if let Some(own) = chain.first() {
            check_validity(file, own, diagnosis);
        }
        check_order(file, &chain, diagnosis);
        check_names(settings, &chain, diagnosis);
        if let Some(ca) = &settings.cluster.ca {
            check_ca(settings, &chain, &read(ca), ca, diagnosis);
        }
    }
    diagnosis.ok_unless_found(NAME, format!("{} is valid for more than 14 days", file.display()));
}

fn check_validity(file: &Path, own: &CertificateDer<'_>, diagnosis: &mut Diagnosis) {
    let Ok((_, parsed)) = X509Certificate::from_der(own) else { return };
    let seconds = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or_default();
    let end = UNIX_EPOCH + Duration::from_secs(seconds);
    if end < SystemTime::now() + SOON {
        let (file, end) = (file.display(), humantime::format_rfc3339_seconds(end));
        diagnosis.warn(
            NAME,
            format!("tls.cert: the certificate in {file} expires at {end}"),
            "renew it; the server takes new files without a restart",
        );
    }
}

/// Each certificate has to be signed by the next one.
fn check_order(file: &Path, chain: &[CertificateDer<'_>], diagnosis: &mut Diagnosis) {
    let parsed: Vec<_> = chain.iter().filter_map(|der| X509Certificate::from_der(der).ok()).collect();
    let breaks = parsed.windows(2).position(|pair| pair[0].1.issuer() != pair[1].1.subject());
    if let Some(at) = breaks {
        diagnosis.fault(
            NAME,
            format!("tls.cert: in {} certificate {} is not of the CA behind it", file.display(), at + 1),
            "put the own certificate first, and behind each the one of its CA",
        );
    }
}

/// The host in the advertised URL.
fn advertised(settings: &Settings) -> Option<(String, ServerName<'static>)> {
    let url = settings.cluster.advertise.as_ref().filter(|url| url.is_https())?;
    let (host, _) = url.authority().rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host.clone()).ok()?;
    Some((host, name))
}

fn check_names(settings: &Settings, chain: &[CertificateDer<'_>], diagnosis: &mut Diagnosis) {
    let (Some((host, name)), Some(own)) = (advertised(settings), chain.first()) else { return };
    let is_covered = ParsedCertificate::try_from(own)
        .and_then(|parsed| rustls::client::verify_server_name(&parsed, &name))
        .is_ok();
    if !is_covered {
        diagnosis.fault(
            NAME,
            format!("cluster.advertise names {host}, for which the certificate in tls.cert is not"),
            format!("have one made with {host} as an alternative name, or advertise another name"),
        );
    }
}

/// Whether the other nodes, which have the same CAs, would believe this one.
fn check_ca(
    settings: &Settings,
    chain: &[CertificateDer<'_>],
    cas: &[CertificateDer<'static>],
    file: &Path,
    diagnosis: &mut Diagnosis,
) {
    let (Some((host, name)), [own, between @ ..]) = (advertised(settings), chain) else { return };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(cas.iter().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let Ok(verifier) = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build() else {
        return;
    };
    let verified = verifier.verify_server_cert(own, between, &name, &[], UnixTime::now());
    // A wrong name was found before.
    let of_name = |error: &rustls::Error| {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        matches!(error, rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
    };
    if let Some(why) = verified.err().filter(|error| !of_name(error)) {
        diagnosis.fault(
            NAME,
            format!("cluster.ca: by {} no node can trust the certificate for {host}: {why}", file.display()),
            "name the CA that has signed the certificates of the nodes, and put those between into tls.cert",
        );
    }
}
