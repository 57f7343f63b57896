//! The project's own clients over TLS.

use std::path::Path;
use std::time::Duration;

use lockhouse::remote::{ConnectError, connect};

use crate::certificates::Ca;
use crate::program;
use crate::running::{Running, lockhouse, run};

fn server(folder: &Path) -> Running {
    let files = Ca::new(folder, "ca").sign("good");
    Running::start(folder, &["--tls-cert", &files.cert, "--tls-key", &files.key])
}

#[tokio::test]
async fn the_rust_client_locks_and_claims_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    for scheme in ["https", "wss"] {
        let url = format!("{scheme}://localhost:{}", server.address.port());
        let connection = connect(url).ca(folder.path().join("ca.pem")).await.unwrap();
        let agent = connection.agent("a").unwrap();
        let held = agent.locks().request("n").await.unwrap();
        assert!(agent.locks().request("n").if_available().await.is_err());
        held.release().await.unwrap();
        let claim = connection.claims().claim(scheme, "Ada", Duration::from_secs(60)).await.unwrap();
        claim.finalize().await.unwrap();
        connection.close().await;
    }
}

#[tokio::test]
async fn an_untrusted_server_differs_from_an_unreachable_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let server = server(path);
    let port = server.address.port();
    let https = format!("https://localhost:{port}");
    Ca::new(path, "others");
    let refused = async |url: &str, ca: &str| connect(url).ca(path.join(ca)).await.unwrap_err();

    let error = refused(&https, "others.pem").await;
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
    assert!(error.to_string().starts_with(&format!("cannot speak TLS with {https}: ")), "{error}");
    // The CAs of the system do not know it.
    let error = connect(&https).await.unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
    // The certificate is not for that name.
    let error = refused(&format!("https://[::1]:{port}"), "ca.pem").await;
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    let named = Ca::new(path, "namers").sign_names("named", &["other.example"]);
    let other = Running::start(path, &["--tls-cert", &named.cert, "--tls-key", &named.key]);
    let error = refused(&format!("https://localhost:{}", other.address.port()), "namers.pem").await;
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
    // The scheme is not the server's.
    let error = connect(format!("http://localhost:{port}")).await.unwrap_err();
    assert!(error.to_string().contains("400: this server speaks TLS: use https://"), "{error}");
    let plain = Running::start(path, &[]);
    let error = refused(&format!("https://localhost:{}", plain.address.port()), "ca.pem").await;
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
    // The CA cannot be used.
    for (ca, why) in [("none.pem", "No such file"), ("good.key", "holds no certificate")] {
        let error = refused(&https, ca).await;
        assert!(matches!(error, ConnectError::Ca { .. }) && error.to_string().contains(why), "{error}");
    }
}

#[test]
fn commands_take_a_ca_as_an_option_or_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let url = format!("https://{}", server.address);
    let command = |arguments: &[&str]| {
        let mut command = lockhouse(folder.path(), arguments);
        command.env("LOCKHOUSE_URL", &url);
        command
    };
    let (code, stdout, stderr) = run(&mut command(&["ls", "--json", "--ca", "ca.pem"]));
    assert_eq!((code, stdout.trim(), stderr.as_str()), (Some(0), "[]", ""));
    let claim = ["claim", "seat", "--claimant", "Ada"];
    let (code, _, stderr) = run(command(&claim).env("LOCKHOUSE_CA", "ca.pem"));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    // The command that runs under a lock finds server and CA without any option.
    let this = program::lockhouse();
    let (code, stdout, stderr) =
        run(&mut command(&["run", "n", "--ca", "ca.pem", "--", this, "ls", "--json"]));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("\"n\""), "{stdout}");
    for arguments in [&["ls"][..], &claim] {
        let (code, _, stderr) = run(&mut command(arguments));
        assert_eq!((code, stderr.lines().count()), (Some(69), 1), "{stderr}");
        assert!(stderr.contains("certificate") && stderr.contains("--ca or LOCKHOUSE_CA"), "{stderr}");
        let (code, _, stderr) = run(&mut command(&[arguments, &["--ca", "none.pem"]].concat()));
        assert_eq!((code, stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains("none.pem cannot be used: No such file"), "{stderr}");
    }
}
