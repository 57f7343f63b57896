//! Certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::certificates::{Ca, Files};
use crate::doctor::Found;

const DAY: Duration = Duration::from_secs(86_400);

/// A certificate for localhost that is valid for so many days.
fn sign(folder: &Path, ca: &Ca, name: &str, days: u32) -> Files {
    let now = SystemTime::now();
    let files = ca.sign_for(name, &["localhost"], now - DAY, now + DAY * days);
    hide(folder, &files);
    files
}

/// Only the owner may read the key.
fn hide(folder: &Path, files: &Files) {
    fs::set_permissions(folder.join(&files.key), fs::Permissions::from_mode(0o600)).unwrap();
}

fn found(folder: &Path, cert: &str, key: &str) -> Found {
    Found::of(folder, &["--tls-cert", cert, "--tls-key", key])
}

#[test]
fn a_certificate_for_a_long_time_is_healthy_and_one_for_a_short_time_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let ca = Ca::new(folder.path(), "ca");
    let Files { cert, key } = sign(folder.path(), &ca, "long", 90);
    found(folder.path(), &cert, &key).is_healthy();
    let Files { cert, key } = sign(folder.path(), &ca, "short", 13);
    found(folder.path(), &cert, &key).has_warning("certificates", "expires at ");
}

#[test]
fn an_expired_certificate_and_one_of_another_key_are_faults() {
    let folder = tempfile::tempdir().unwrap();
    let ca = Ca::new(folder.path(), "ca");
    let expired = ca.sign_expired("expired");
    hide(folder.path(), &expired);
    let fault = found(folder.path(), &expired.cert, &expired.key);
    fault.has_fault("certificates", "expired at ");

    let [one, other] = ["one", "other"].map(|name| sign(folder.path(), &ca, name, 90));
    let fault = found(folder.path(), &one.cert, &other.key);
    fault.has_fault("certificates", "is not that of the certificate");
    let fault = found(folder.path(), &one.cert, "gone.key");
    fault.has_fault("certificates", "gone.key cannot be read");
}

#[test]
fn a_key_that_others_may_read_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let Files { cert, key } = sign(folder.path(), &Ca::new(folder.path(), "ca"), "long", 90);
    fs::set_permissions(folder.path().join(&key), fs::Permissions::from_mode(0o644)).unwrap();
    found(folder.path(), &cert, &key).has_fault("secrets", "tls.key: every account");
}

#[test]
fn a_chain_in_the_wrong_order_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let [one, _] = ["one", "other"].map(|name| Ca::new(folder.path(), name));
    let Files { cert, key } = sign(folder.path(), &one, "long", 90);
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    fs::write(folder.path().join("chain.pem"), read(&cert) + &read("other.pem")).unwrap();
    let fault = found(folder.path(), "chain.pem", &key);
    fault.has_fault("certificates", "certificate 1 is not of the CA behind it");
    fs::write(folder.path().join("chain.pem"), read(&cert) + &read("one.pem")).unwrap();
    found(folder.path(), "chain.pem", &key).is_healthy();
}
