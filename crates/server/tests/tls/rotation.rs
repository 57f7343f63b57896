//! A certificate is renewed while connections live.

use std::fs;
use std::path::Path;

use lockhouse::remote::connect;

use crate::certificates::Ca;
use crate::running::Running;
use crate::tls::https::{Https, certificate_in};

/// The new certificate in the place of the one in use.
fn replace(folder: &Path, name: &str) {
    fs::copy(folder.join(format!("{name}.key")), folder.join("used.key")).unwrap();
    fs::copy(folder.join(format!("{name}.pem")), folder.join("used.pem")).unwrap();
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_old_ones_live_on() {
    let folder = tempfile::tempdir().unwrap();
    let (path, ca_file) = (folder.path(), folder.path().join("ca.pem"));
    let ca = Ca::new(path, "ca");
    ca.sign("first");
    ca.sign("second");
    replace(path, "first");
    let server = Running::start(path, &["--tls-cert", "used.pem", "--tls-key", "used.key"]);

    let mut old = Https::connect(server.address, &ca_file).await.unwrap();
    assert_eq!(old.certificate(), certificate_in(&path.join("first.pem")));
    let client = connect(format!("https://{}", server.address)).ca(&ca_file).await.unwrap();
    let agent = client.agent("a").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    let epoch = old.get("localhost", "/healthz").await.unwrap().body;

    replace(path, "second");
    server.hang_up();
    server.log("reloaded");
    let new = Https::connect(server.address, &ca_file).await.unwrap();
    assert_eq!(new.certificate(), certificate_in(&path.join("second.pem")));
    // The same connection, the same session, the same lock.
    assert_eq!(old.get("localhost", "/healthz").await.unwrap().body, epoch);
    assert_eq!(held.loss(), None);
    held.release().await.unwrap();
    agent.locks().request("n").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_certificate_whose_files_change_is_taken_without_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (path, ca_file) = (folder.path(), folder.path().join("ca.pem"));
    let ca = Ca::new(path, "ca");
    ca.sign("first");
    ca.sign("second");
    replace(path, "first");
    let server = Running::start(path, &["--tls-cert", "used.pem", "--tls-key", "used.key"]);
    // Files that cannot be used are reported, once, and change nothing.
    fs::write(path.join("used.pem"), "half of it").unwrap();
    let line = server.log("the files of the certificate have changed");
    assert!(
        line.contains("used.pem holds no certificate")
            && line.contains("the former certificate stays in use"),
        "{line}"
    );
    let still = Https::connect(server.address, &ca_file).await.unwrap();
    assert_eq!(still.certificate(), certificate_in(&path.join("first.pem")));

    replace(path, "second");
    let line = server.log("the files of the certificate have changed");
    assert!(line.contains("it is reloaded"), "{line}");
    let new = Https::connect(server.address, &ca_file).await.unwrap();
    assert_eq!(new.certificate(), certificate_in(&path.join("second.pem")));
}
