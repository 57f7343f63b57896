//! A certificate stands for its client.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use lockhouse::remote::{Connect, ConnectError, connect};
use lockhouse::{ClaimError, Loss};
use serde_json::Value;

use crate::certificates::{Ca, Files};
use crate::running::{Running, lockhouse, run};
use crate::tls::https::Https;

const PATIENCE: Duration = Duration::from_secs(20);

const BILLING: &str = "spiffe://acme.example/billing";

/// The common settings of all servers here: certificates of `ca.pem` are taken, others may come without one.
const TLS: &str = "[tls]\ncert = \"server.pem\"\nkey = \"server.key\"\nclient_ca = \"ca.pem\"\nclient_auth = \"optional\"\n";

/// The section of a certificate with these permissions in all buckets that begin with `jobs`.
fn entry(id: &str, mark: &str, tenant: &str, permissions: &str) -> String {
    format!(
        "[[auth.certificates]]\nid = \"{id}\"\n{mark}\ntenant = \"{tenant}\"\nbuckets = {{ \"jobs*\" = [{permissions}] }}\n"
    )
}

fn billing() -> String {
    entry("billing", &format!("uri = \"{BILLING}\""), "acme", r#""request", "query", "claim", "offline""#)
}

/// Appends the section of a new key to the settings, and gives the key.
fn new_key(folder: &Path, arguments: &[&str]) -> String {
    let (code, section, stderr) = run(&mut lockhouse(folder, &[&["key", "new"], arguments].concat()));
    assert_eq!(code, Some(0), "{stderr}");
    let file = folder.join("f.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + &section).unwrap();
    stderr.trim().rsplit_once("LOCKHOUSE_KEY=").unwrap().1.to_owned()
}

/// A server with these sections, and the CA of all.
fn settings(folder: &Path, sections: &[String]) -> Ca {
    let ca = Ca::new(folder, "ca");
    ca.sign("server");
    fs::write(folder.join("f.toml"), TLS.to_owned() + &sections.concat()).unwrap();
    ca
}

fn start(folder: &Path) -> Running {
    Running::start(folder, &["--config", "f.toml"])
}

/// A client in a bucket.
fn to(folder: &Path, server: &Running, bucket: &str) -> Connect {
    connect(format!("https://localhost:{}", server.address.port())).ca(folder.join("ca.pem")).bucket(bucket)
}

fn with(connect: Connect, folder: &Path, files: &Files) -> Connect {
    connect.certificate(folder.join(&files.cert), folder.join(&files.key))
}

async fn https(folder: &Path, server: &Running, files: &Files) -> Https {
    Https::connect_as(server.address, &folder.join("ca.pem"), Some(files)).await.unwrap()
}

fn denied(error: &ConnectError, part: &str) -> bool {
    matches!(error, ConnectError::Denied { message, .. } if message.contains(part))
}

#[tokio::test]
async fn a_certificate_stands_for_whom_its_entry_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = settings(path, &[]);
    let files = [
        ca.sign_uri("billing", BILLING),
        ca.sign_names("worker", &["Worker.acme.example"]),
        ca.sign_email("ada", "ada@acme.example"),
        ca.sign("pinned"),
    ];
    let sha256 = lockhouse_server::fingerprint(&fs::read(path.join("pinned.pem")).unwrap()).unwrap();
    let all = r#""request", "query", "claim""#;
    let sections = [
        entry("billing", &format!("uri = \"{BILLING}\""), "acme", all),
        entry("worker", "dns = \"worker.acme.example\"", "acme", all),
        entry("ada", "email = \"ada@acme.example\"", "acme", all),
        entry("pinned", &format!("sha256 = \"{sha256}\""), "beta", all),
    ];
    fs::write(path.join("f.toml"), TLS.to_owned() + &sections.concat()).unwrap();
    let server = start(path);
    let mut connections = Vec::new();
    for files in &files {
        connections.push(with(to(path, &server, "jobs-1"), path, files).await.unwrap());
    }
    // Three are of one tenant, and see each other; the fourth is of another, and sees none of them.
    let first = connections[0].agent("a").unwrap();
    let held = first.locks().request("n").await.unwrap();
    for (connection, is_free) in connections[1..].iter().zip([false, false, true]) {
        let agent = connection.agent("b").unwrap();
        assert_eq!(agent.locks().request("n").if_available().await.is_ok(), is_free);
    }
    held.release().await.unwrap();
    let claim = connections[0].claims().claim("seat", "Ada", PATIENCE).await.unwrap();
    let taken = connections[1].claims().claim("seat", "Bob", PATIENCE).await;
    assert!(matches!(taken, Err(ClaimError::Claimed { .. })), "{taken:?}");
    connections[3].claims().claim("seat", "Eve", PATIENCE).await.unwrap();
    claim.finalize().await.unwrap();
    // Where the client may do nothing, it gets the reason.
    let error = with(to(path, &server, "seats"), path, &files[0]).await.unwrap_err();
    assert!(denied(&error, "no permission in the bucket \"seats\""), "{error}");
    let (_, logs) = server.terminate();
    let audited = logs.iter().any(|line| line.contains("denied") && line.contains("key=\"billing\""));
    assert!(audited, "{logs:?}");
}

#[tokio::test]
async fn a_certificate_without_an_entry_or_a_permission_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = settings(path, &[entry("billing", &format!("uri = \"{BILLING}\""), "acme", "\"query\"")]);
    let (billing, stranger) =
        (ca.sign_uri("billing", BILLING), ca.sign_uri("other", &format!("{BILLING}/x")));
    let server = start(path);
    let error = with(to(path, &server, "jobs"), path, &stranger).await.unwrap_err();
    assert!(denied(&error, "stands for nobody"), "{error}");
    let error = to(path, &server, "jobs").await.unwrap_err();
    assert!(denied(&error, "no API key, no token and no certificate"), "{error}");

    let query = "/v1/buckets/jobs/query";
    let mut as_billing = https(path, &server, &billing).await;
    assert_eq!(as_billing.call("GET", query, "", "").await.unwrap().status, 200);
    let claim = r#"{"resource": "seat", "claimant": "Ada"}"#;
    let answer = as_billing.call("POST", "/v1/buckets/jobs/claims", "", claim).await.unwrap();
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("\"permission\":\"claim\""), "{answer:?}");
    let answer = https(path, &server, &stranger).await.call("GET", query, "", "").await.unwrap();
    assert!(answer.status == 401 && answer.body.contains("stands for nobody"), "{answer:?}");
}

#[tokio::test]
async fn a_key_goes_before_a_certificate_and_a_wrong_one_is_not_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = settings(path, &[billing()]);
    let key = new_key(
        path,
        &["--id", "ci", "--tenant", "beta", "--permission", "query", "--permission", "offline"],
    );
    let billing = ca.sign_uri("billing", BILLING);
    let server = start(path);
    let wrong = format!("{}0", &key[..key.len() - 1]);
    let wrong = if wrong == key { format!("{}1", &key[..key.len() - 1]) } else { wrong };

    // The key may do less, and that holds.
    let connection = with(to(path, &server, "jobs"), path, &billing).key(&key).await.unwrap();
    let agent = connection.agent("a").unwrap();
    assert!(agent.locks().request("n").await.is_err());
    for wrong in [&*wrong, "garbage"] {
        let error = with(to(path, &server, "jobs"), path, &billing).key(wrong).await.unwrap_err();
        assert!(matches!(error, ConnectError::Denied { .. }), "{error:?}");
    }

    let mut https = https(path, &server, &billing).await;
    let query = "/v1/buckets/jobs/query";
    let claim = r#"{"resource": "seat", "claimant": "Ada"}"#;
    for (headers, status) in [
        (String::new(), 200),
        (format!("lockhouse-key: {key}\r\n"), 200),
        (format!("authorization: Bearer {key}\r\n"), 200),
        (format!("lockhouse-key: {wrong}\r\n"), 401),
        (format!("authorization: Bearer {wrong}\r\n"), 401),
        ("lockhouse-key: garbage\r\n".to_owned(), 401),
        ("lockhouse-key: \r\n".to_owned(), 401),
        ("authorization: Bearer garbage\r\n".to_owned(), 401),
        ("authorization: Basic YTpi\r\n".to_owned(), 401),
    ] {
        let answer = https.call("GET", query, &headers, "").await.unwrap();
        assert_eq!(answer.status, status, "{headers} {answer:?}");
    }
    // The tenant is that of the key.
    let answer =
        https.call("POST", "/v1/buckets/jobs/claims", &format!("lockhouse-key: {key}\r\n"), claim).await;
    assert_eq!(answer.unwrap().status, 403);
    assert_eq!(https.call("POST", "/v1/buckets/jobs/claims", "", claim).await.unwrap().status, 201);
}

#[tokio::test]
async fn the_secret_of_an_owner_stands_where_it_always_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = settings(path, &[billing()]);
    let billing = ca.sign_uri("billing", BILLING);
    let server = start(path);
    let mut https = https(path, &server, &billing).await;
    let opened = https.call("POST", "/v1/buckets/jobs/owners", "", r#"{"label": "Ada"}"#).await.unwrap();
    let opened: Value = serde_json::from_str(&opened.body).unwrap();
    let owner = opened["owner"].as_str().unwrap();
    let secret = format!("authorization: Bearer {}\r\n", opened["ownerSecret"].as_str().unwrap());
    let locks = format!(r#"{{"owner": "{owner}", "locks": [{{"name": "n", "mode": "exclusive"}}]}}"#);
    let own = format!("/v1/buckets/jobs/owners/{owner}");
    let wrong = "authorization: Bearer 0000\r\n";
    assert_eq!(https.call("POST", "/v1/buckets/jobs/locks", wrong, &locks).await.unwrap().status, 401);
    assert_eq!(https.call("POST", "/v1/buckets/jobs/locks", "", &locks).await.unwrap().status, 401);
    assert_eq!(https.call("POST", "/v1/buckets/jobs/locks", &secret, &locks).await.unwrap().status, 201);
    assert_eq!(https.call("GET", &own, &secret, "").await.unwrap().status, 200);
    assert_eq!(https.call("POST", &format!("{own}/heartbeat"), &secret, "").await.unwrap().status, 200);
    for verb in ["undo", "release"] {
        let member = if verb == "undo" { r#", "how": "fresh", "fencingToken": 1"# } else { "" };
        let body = format!(r#"{{"owner": "{owner}", "locks": [{{"name": "m"{member}}}]}}"#);
        let answer =
            https.call("POST", &format!("/v1/buckets/jobs/locks/{verb}"), &secret, &body).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(https.call("DELETE", &own, &secret, "").await.unwrap().status, 204);
    // The Rust client, too, needs nothing else.
    let connection = with(to(path, &server, "jobs"), path, &billing).await.unwrap();
    connection.owners().open("Ada", PATIENCE).await.unwrap().end().await.unwrap();
}

#[tokio::test]
async fn a_certificate_does_not_speak_for_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = settings(path, &[billing()]);
    let key = new_key(path, &["--id", "page", "--permission", "query"]);
    let files = ca.sign_uri("billing", BILLING);
    let server = start(path);
    let mut https = https(path, &server, &files).await;
    // Browsers show it for whatever page asks, also one of this machine, whose origin is let in.
    let page = "origin: http://localhost:3000\r\n";
    let answer = https.call("GET", "/v1/buckets/jobs/query", page, "").await.unwrap();
    assert!(answer.status == 401 && answer.body.contains("does not speak for pages"), "{answer:?}");
    let with_key = format!("{page}lockhouse-key: {key}\r\n");
    assert_eq!(https.call("GET", "/v1/buckets/jobs/query", &with_key, "").await.unwrap().status, 200);
    // Nor where they leave the origin out: for their own site, of another one without CORS, and typed.
    for site in ["same-origin", "cross-site", "same-site", "none"] {
        let page = format!("sec-fetch-site: {site}\r\n");
        let answer = https.call("GET", "/v1/buckets/jobs/query", &page, "").await.unwrap();
        assert!(
            answer.status == 401 && answer.body.contains("does not speak for pages"),
            "{site}: {answer:?}"
        );
        let with_key = format!("{page}lockhouse-key: {key}\r\n");
        assert_eq!(https.call("GET", "/v1/buckets/jobs/query", &with_key, "").await.unwrap().status, 200);
    }
    // Node sends that, which is no browser.
    let node = "sec-fetch-mode: cors\r\n";
    assert_eq!(https.call("GET", "/v1/buckets/jobs/query", node, "").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_page_meets_itself_and_no_program_whether_it_sends_its_origin_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    settings(path, &[]);
    let key = new_key(path, &["--id", "page", "--isolate-origins", "--permission", "offline"]);
    let server = start(path);
    let mut https = Https::connect(server.address, &path.join("ca.pem")).await.unwrap();
    let key = format!("lockhouse-key: {key}\r\n");
    let page = format!("{key}origin: https://localhost\r\n");
    let opened = https.call("POST", "/v1/buckets/jobs/owners", &page, r#"{"label": "Ada"}"#).await.unwrap();
    let opened: Value = serde_json::from_str(&opened.body).unwrap();
    let secret = format!("authorization: Bearer {}\r\n", opened["ownerSecret"].as_str().unwrap());
    let own = format!("/v1/buckets/jobs/owners/{}", opened["owner"].as_str().unwrap());
    for (more, status, code) in [
        ("origin: https://localhost\r\n", 200, ""),
        ("sec-fetch-site: same-origin\r\n", 200, ""),
        ("sec-fetch-site: same-origin\r\nreferer: https://localhost/dashboard/\r\n", 200, ""),
        ("", 404, "unknown_owner"),
        ("origin: https://localhost:7\r\n", 404, "unknown_owner"),
        ("sec-fetch-site: cross-site\r\n", 401, "unauthenticated"),
        ("sec-fetch-site: none\r\n", 401, "unauthenticated"),
    ] {
        let answer = https.call("GET", &own, &format!("{key}{secret}{more}"), "").await.unwrap();
        assert!(answer.status == status && answer.body.contains(code), "{more}: {answer:?}");
    }
}

#[tokio::test]
async fn certificates_out_of_their_time_or_of_others_are_refused_in_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = settings(path, &[billing(), entry("local", "dns = \"localhost\"", "acme", "\"query\"")]);
    let server = start(path);
    let good = ca.sign("good");
    with(to(path, &server, "jobs"), path, &good).await.unwrap();
    let others = Ca::new(path, "others").sign("stranger");
    for (files, why) in [
        (ca.sign_expired("expired"), "CertificateExpired"),
        (ca.sign_early("early"), "CertificateExpired"),
        (others, "UnknownCA"),
    ] {
        let error = with(to(path, &server, "jobs"), path, &files).await.unwrap_err();
        assert!(matches!(error, ConnectError::Untrusted { .. }), "{}: {error:?}", files.cert);
        let url = format!("https://{}", server.address);
        for command in [&["ls"][..], &["claim", "seat", "--claimant", "Ada"]] {
            let options = [
                "--url",
                &url,
                "--bucket",
                "jobs",
                "--ca",
                "ca.pem",
                "--cert",
                &files.cert,
                "--cert-key",
                &files.key,
            ];
            let (code, _, stderr) = run(&mut lockhouse(path, &[command, &options].concat()));
            assert_eq!((code, stderr.lines().count()), (Some(69), 1), "{stderr}");
            assert!(stderr.contains(why) && stderr.contains("--cert or LOCKHOUSE_CERT"), "{stderr}");
        }
    }
}

#[tokio::test]
async fn a_session_ends_with_its_certificate_and_so_does_its_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = settings(path, &[billing()]);
    let server = start(path);
    let end = SystemTime::now() + Duration::from_secs(4);
    let short = ca.sign_uri_until("short", BILLING, end);
    let connection = with(to(path, &server, "jobs"), path, &short).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    let mut https = https(path, &server, &short).await;
    assert_eq!(https.call("GET", "/v1/buckets/jobs/query", "", "").await.unwrap().status, 200);

    let loss = tokio::time::timeout(PATIENCE, held.lost()).await.unwrap();
    assert!(!matches!(loss, Loss::Expired), "{loss:?}");
    tokio::time::timeout(PATIENCE, https.ended()).await.unwrap();
    // The certificate names the second before.
    assert!(SystemTime::now() + Duration::from_secs(1) > end);
    let lasting = ca.sign_uri("lasting", BILLING);
    let next = with(to(path, &server, "jobs"), path, &lasting).await.unwrap();
    let agent = next.agent("b").unwrap();
    agent.locks().request("n").timeout(PATIENCE).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_certificate_that_is_renewed_in_its_place_keeps_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = settings(path, &[billing()]);
    let server = start(path);
    let end = SystemTime::now() + Duration::from_secs(6);
    let used = ca.sign_uri_until("used", BILLING, end);
    let connection = with(to(path, &server, "jobs"), path, &used).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    // In place of the other; for a moment the two files do not belong together.
    ca.sign_uri("used", BILLING);
    while let Ok(left) = end.duration_since(SystemTime::now()) {
        tokio::select! {
            loss = held.lost() => panic!("{loss:?}"),
            () = tokio::time::sleep(left) => {}
        }
    }
    let again = agent.locks().request("m").timeout(PATIENCE).await.unwrap();
    assert_eq!(held.loss(), None);
    again.release().await.unwrap();
    held.release().await.unwrap();
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ca = Ca::new(path, "ca");
    let (one, other) = (ca.sign("one"), ca.sign("other"));
    let both =
        fs::read_to_string(path.join(&one.cert)).unwrap() + &fs::read_to_string(path.join(&one.key)).unwrap();
    fs::write(path.join("both.pem"), both).unwrap();
    let claim = ["claim", "seat", "--claimant", "Ada", "--url", "https://localhost:1"];
    for (options, code, part) in [
        (&["--cert", "none.pem", "--cert-key", &one.key][..], 2, "none.pem cannot be used: No such file"),
        (&["--cert", &one.cert, "--cert-key", "none.key"], 2, "none.key cannot be used: No such file"),
        (
            &["--cert", &one.cert],
            2,
            "one.pem cannot be used: it holds no private key (name the file of its key",
        ),
        (&["--cert", &one.key, "--cert-key", &one.key], 2, "one.key cannot be used: it holds no certificate"),
        (
            &["--cert", &one.cert, "--cert-key", &other.key],
            2,
            "it is not the key of the certificate in one.pem",
        ),
        (&["--cert-key", &one.key], 2, "--cert <FILE>"),
        // With all in one file it comes as far as the server.
        (&["--cert", "both.pem"], 69, "cannot reach"),
    ] {
        for command in [&claim[..], &["ls", "--url", "https://localhost:1"]] {
            let (ended, _, stderr) = run(&mut lockhouse(path, &[command, options].concat()));
            assert_eq!(ended, Some(code), "{options:?} {stderr}");
            assert!(stderr.contains(part), "{options:?} {stderr}");
        }
    }
}
