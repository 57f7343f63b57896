//! Clients that get through the handshake, and clients that do not.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::certificates::Ca;
use crate::running::{Running, all_of, lockhouse};
use crate::tls::https::{Https, certificate_in};

fn server(folder: &std::path::Path) -> Running {
    let files = Ca::new(folder, "ca").sign("good");
    Running::start(folder, &["--tls-cert", &files.cert, "--tls-key", &files.key])
}

#[test]
fn plain_http_is_answered_with_the_advice_to_use_https() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let mut plain = TcpStream::connect(server.address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = [0; 200];
    let length = plain.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{answer}");
    assert_eq!(body, "this server speaks TLS: use https://");
}

#[tokio::test]
async fn handshakes_that_take_too_long_are_ended_and_delay_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let limits = "[limits]\nheader_timeout = \"3s\"\nconnections_per_address = 1000\n";
    std::fs::write(folder.path().join("f.toml"), limits).unwrap();
    let files = Ca::new(folder.path(), "ca").sign("good");
    let options = ["--config", "f.toml", "--tls-cert", &files.cert, "--tls-key", &files.key];
    let server = Running::start(folder.path(), &options);
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for (index, stream) in slow.iter_mut().enumerate() {
        // Nothing at all, or the beginning of a hello.
        stream.write_all(&[0x16, 3, 1, 2, 0, 1][..index % 7]).unwrap();
    }
    let mut quick = Https::connect(server.address, &folder.path().join("ca.pem")).await.unwrap();
    assert_eq!(quick.get("localhost", "/healthz").await.unwrap().status, 200);
    // The client was answered while the others were still waited for.
    slow[0].set_nonblocking(true).unwrap();
    let waiting = slow[0].read(&mut [0]).unwrap_err();
    assert_eq!(waiting.kind(), std::io::ErrorKind::WouldBlock);
    slow[0].set_nonblocking(false).unwrap();
    for stream in &mut slow {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The end, whether it is announced politely or not.
        let end = stream.read(&mut [0; 100]);
        assert!(!matches!(&end, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{end:?}");
    }
    assert!(begun.elapsed() > Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn clients_show_certificates_if_they_must() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = Ca::new(path, "ca");
    let (good, client) = (ca.sign("good"), ca.sign("client"));
    let stranger = Ca::new(path, "strangers").sign("stranger");
    for (auth, anonymous_may) in [("required", false), ("optional", true)] {
        let mut command =
            lockhouse(path, &["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh"]);
        command.args(["--tls-cert", &good.cert, "--tls-key", &good.key]);
        command.env("LOCKHOUSE_TLS_CLIENT_CA", "ca.pem").env("LOCKHOUSE_TLS_CLIENT_AUTH", auth);
        let server = Running::of(command);
        for (own, may) in [(None, anonymous_may), (Some(&client), true), (Some(&stranger), false)] {
            // In TLS 1.3 a client hears only behind its handshake what the server thinks of it.
            let answered = async {
                let mut https = Https::connect_as(server.address, &path.join("ca.pem"), own).await?;
                https.get("localhost", "/healthz").await
            };
            let name = own.map(|files| files.cert.as_str());
            match answered.await {
                Ok(answer) => assert!(may && answer.status == 200, "{auth}, {name:?}: {answer:?}"),
                Err(error) => assert!(!may, "{auth}, {name:?}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_self_signed_certificate_is_announced_and_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &["--tls-self-signed"]);
    let [listening, cert, sha256, trust] = &server.announced[..] else { panic!("{:?}", server.announced) };
    assert_eq!(listening, &format!("listening https://{}", server.address));
    let file = folder.path().join(cert.strip_prefix("self-signed certificate ").unwrap());
    assert!(
        trust.contains("--ca ./lockhouse-self-signed.pem") && trust.contains("NODE_EXTRA_CA_CERTS"),
        "{trust}"
    );
    let mut https = Https::connect(server.address, &file).await.unwrap();
    assert_eq!(https.certificate(), certificate_in(&file));
    assert_eq!(https.get("localhost", "/healthz").await.unwrap().header("strict-transport-security"), None);
    let fingerprint = lockhouse_server::fingerprint(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(sha256, &format!("SHA-256 {fingerprint}"));
    let openssl = std::process::Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(&file)
        .stdout(std::process::Stdio::piped())
        .spawn();
    if let Ok(mut openssl) = openssl {
        assert!(all_of(openssl.stdout.as_mut().unwrap()).contains(&fingerprint));
        openssl.wait().unwrap();
    }
    let key = file.with_extension("key");
    assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    let before = certificate_in(&file);
    assert_eq!(server.terminate().0, Some(0));
    // A client that trusts it need not do so again.
    _ = Running::start(folder.path(), &["--tls-self-signed=."]);
    assert_eq!(certificate_in(&file), before);
}
