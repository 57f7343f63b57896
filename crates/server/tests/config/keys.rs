//! A server with keys and issuers in its settings, from the making of a key to its end.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};
use traces::Kind;

use crate::running::{Running, lockhouse, run, run_in_vain};

/// Draws a key, appends its section to the settings, and gives the key.
pub(crate) fn new_key(folder: &Path, arguments: &[&str]) -> String {
    // The command prints the key on stderr, as it is meant to: that is no log.
    let output = lockhouse(folder, &[&["key", "new"], arguments].concat()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (section, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{stderr}");
    let key = stderr.trim().rsplit_once("LOCKHOUSE_KEY=").unwrap().1.to_owned();
    traces::secret(Kind::ApiKey, &key);
    assert!(!section.contains(&key), "the key itself stands in the settings");
    let file = folder.join("f.toml");
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::write(file, before + &section).unwrap();
    key
}

/// Exit code and stderr of a claim.
fn claim(folder: &Path, server: &Running, bucket: &str, key: Option<&str>) -> (Option<i32>, String) {
    let url = format!("http://{}", server.address);
    let arguments = ["claim", "seat", "--claimant", "Ada", "--ttl", "1ms", "--url", &url, "--bucket", bucket];
    let mut command = lockhouse(folder, &arguments);
    if let Some(key) = key {
        command.env("LOCKHOUSE_KEY", key);
    }
    let (code, _, stderr) = run(&mut command);
    (code, stderr)
}

#[test]
fn without_keys_a_server_listens_on_this_machine_only() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "0.0.0.0:0", "--store", "memory:", "--fresh", "--config", "f.toml"];
    fs::write(folder.path().join("f.toml"), "").unwrap();
    let (code, said, stderr) = run_in_vain(&mut lockhouse(folder.path(), &serve));
    assert_eq!((code, &*said, stderr.lines().count()), (Some(2), "", 1), "{stderr}");
    assert!(stderr.contains("listen address 0.0.0.0:0"), "{stderr}");

    let key = new_key(folder.path(), &["--permission", "claim"]);
    let mut server = Running::of(lockhouse(folder.path(), &serve));
    server.log("speaks no TLS");
    server.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(claim(folder.path(), &server, "b", Some(&key)).0, Some(0));
    assert_eq!(claim(folder.path(), &server, "b", None).0, Some(1));
}

#[test]
fn a_key_opens_what_it_is_for_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let key = new_key(
        folder.path(),
        &["--id", "ci", "--tenant", "acme", "--bucket", "jobs*", "--permission", "claim"],
    );
    let other = new_key(folder.path(), &["--id", "other", "--bucket", "jobs", "--permission", "query"]);
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let claim = |bucket, key| claim(folder.path(), &server, bucket, key);
    assert_eq!(claim("jobs-7", Some(&key)), (Some(0), String::new()));
    for (bucket, key, part) in [
        ("jobs", None, "there is no API key, no token and no certificate"),
        ("jobs", Some(&*key.replace("lhk_ci", "lhk_other")), "the API key is not known"),
        ("seats", Some(&key), "permission"),
        ("jobs", Some(&other), "permission"),
    ] {
        let (code, stderr) = claim(bucket, key);
        assert_eq!((code, stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains(part), "{part}: {stderr}");
        assert!(stderr.contains("--key or LOCKHOUSE_KEY"), "{stderr}");
    }
    let (_, logs) = server.terminate();
    let secret = |key: &str| key.rsplit_once('_').unwrap().1.to_owned();
    let logs = logs.concat();
    assert!(
        logs.contains("denied") && !logs.contains(&secret(&key)) && !logs.contains(&secret(&other)),
        "{logs}"
    );
}

#[test]
fn a_key_that_is_taken_out_ends_its_sessions_at_the_reload() {
    let folder = tempfile::tempdir().unwrap();
    let stays =
        new_key(folder.path(), &["--id", "stays", "--permission", "query", "--permission", "request"]);
    let before = fs::read_to_string(folder.path().join("f.toml")).unwrap();
    let goes = new_key(folder.path(), &["--id", "goes", "--permission", "request"]);
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let url = format!("http://{}", server.address);
    let ours = |arguments: &[&str], key: &str| {
        let mut command = lockhouse(folder.path(), arguments);
        command.env("LOCKHOUSE_URL", &url).env("LOCKHOUSE_KEY", key);
        command
    };
    // The command runs until its input ends.
    let mut holder = ours(&["run", "report", "--", "cat"], &goes)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    loop {
        let (code, held, stderr) = run(&mut ours(&["ls", "--json"], &stays));
        assert_eq!(code, Some(0), "{stderr}");
        if serde_json::from_str::<Value>(&held).unwrap().as_array().is_some_and(|held| !held.is_empty()) {
            break;
        }
        assert!(begun.elapsed().as_secs() < 20, "nothing is held");
    }

    fs::write(folder.path().join("f.toml"), before).unwrap();
    server.hang_up();
    server.log("reloaded");
    assert_eq!(holder.wait().unwrap().code(), Some(76));
    let taken = run(&mut ours(&["run", "report", "--timeout", "20s", "--", "true"], &stays));
    assert_eq!(taken.0, Some(0), "{}", taken.2);
    let (code, _, stderr) = run(&mut ours(&["run", "report", "--", "true"], &goes));
    assert_eq!(code, Some(1), "{stderr}");

    // The last one can be taken out, too, and no client is let in by that.
    fs::write(folder.path().join("f.toml"), "").unwrap();
    server.hang_up();
    server.log("nobody is admitted");
    server.log("reloaded");
    for key in [&goes, &stays] {
        assert_eq!(run(&mut ours(&["ls"], key)).0, Some(1));
    }
    assert_eq!(run(ours(&["ls"], &stays).env_remove("LOCKHOUSE_KEY")).0, Some(1));
}

#[test]
fn a_token_of_an_issuer_is_taken_and_looked_into() {
    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    let folder = tempfile::tempdir().unwrap();
    traces::secret(Kind::SigningKey, SECRET);
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    let settings = "[[auth.jwt]]\nid = \"idp\"\nalgorithm = \"HS256\"\nissuer = \"idp\"\naudience = \"lockhouse\"\nkey_file = \"secret\"\n";
    fs::write(folder.path().join("f.toml"), settings).unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let token = |end: Duration| {
        let claims = json!({"iss": "idp", "aud": "lockhouse", "sub": "ada", "tenant": "acme", "exp": end.as_secs(),
            "buckets": {"jobs": ["claim"]}});
        let token =
            encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap();
        traces::secret(Kind::Token, &token);
        token
    };
    let (good, expired) = (token(now + Duration::from_secs(600)), token(now - Duration::from_secs(600)));
    assert_eq!(claim(folder.path(), &server, "jobs", Some(&good)).0, Some(0));
    let (code, stderr) = claim(folder.path(), &server, "jobs", Some(&expired));
    assert!(code == Some(1) && stderr.contains("expired"), "{stderr}");

    let inspect = |token: &str| {
        fs::write(folder.path().join("token"), token).unwrap();
        run(&mut lockhouse(folder.path(), &["token", "inspect", "--json", "--config", "f.toml", "token"]))
    };
    let (code, stdout, _) = inspect(&good);
    let stdout: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, &stdout["accepted"]["tenant"], &stdout["claims"]["sub"]),
        (Some(0), &json!("acme"), &json!("ada"))
    );
    fs::write(folder.path().join("key"), "lhk_ci_00").unwrap();
    let (code, stdout, _) = run(&mut lockhouse(folder.path(), &["token", "inspect", "key"]));
    assert_eq!((code, stdout.as_str()), (Some(0), "key id \"ci\"\n"));
    let (code, _, stderr) = inspect(&expired);
    assert!(code == Some(1) && stderr.contains("expired"), "{stderr}");
}

#[tokio::test]
async fn a_caller_that_claims_again_with_its_idempotency_key_after_a_kill_finds_the_same_claim() {
    let folder = tempfile::tempdir().unwrap();
    let key = new_key(folder.path(), &["--id", "ada", "--permission", "claim"]);
    let other = new_key(folder.path(), &["--id", "bob", "--permission", "claim"]);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:a.db", "--config", "f.toml"];
    let http = reqwest::Client::new();
    let claim = async |server: &Running, key: &str| {
        let url = format!("http://{}/v1/buckets/default/claims", server.address);
        let request = http.post(url).header("lockhouse-key", key).header("idempotency-key", "k");
        let body = json!({"resource": "seat", "claimant": "Ada"}).to_string();
        let answer = request.header("content-type", "application/json").body(body).send().await.unwrap();
        let status = answer.status().as_u16();
        let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        (status, body["token"].as_str().map(str::to_owned))
    };
    let server = Running::of(lockhouse(folder.path(), &serve));
    let (status, token) = claim(&server, &key).await;
    traces::secret(Kind::ClaimToken, token.as_deref().unwrap());
    assert_eq!(status, 201);
    // The server is killed.
    drop(server);
    let server = Running::of(lockhouse(folder.path(), &serve));
    assert_eq!(claim(&server, &other).await, (409, None));
    assert_eq!(claim(&server, &key).await, (201, token));
}

#[tokio::test]
async fn a_caller_that_opens_an_owner_again_with_its_idempotency_key_after_a_kill_finds_the_same_owner() {
    let folder = tempfile::tempdir().unwrap();
    let key = new_key(folder.path(), &["--id", "ada", "--permission", "offline"]);
    let other = new_key(folder.path(), &["--id", "bob", "--permission", "offline"]);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:a.db", "--config", "f.toml"];
    let http = reqwest::Client::new();
    let open = async |server: &Running, key: &str, label: &str| {
        let url = format!("http://{}/v1/buckets/default/owners", server.address);
        let request = http.post(url).header("lockhouse-key", key).header("idempotency-key", "k");
        let body = json!({"label": label, "ttlMs": 600_000, "maxMs": 1_200_000}).to_string();
        let answer = request.header("content-type", "application/json").body(body).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        traces::answer(&text);
        let body: Value = serde_json::from_str(&text).unwrap();
        (status, [&body["owner"], &body["ownerSecret"], &body["code"], &body["field"]].map(Value::clone))
    };
    let server = Running::of(lockhouse(folder.path(), &serve));
    let first = open(&server, &key, "Ada").await;
    assert_eq!(first.0, 201);
    // The server is killed.
    drop(server);
    let server = Running::of(lockhouse(folder.path(), &serve));
    assert_eq!(open(&server, &key, "Ada").await, first);
    let (status, [owner, secret, ..]) = open(&server, &other, "Ada").await;
    assert!(status == 201 && owner != first.1[0] && secret != first.1[1]);
    drop(server);
    let server = Running::of(lockhouse(folder.path(), &serve));
    let (status, [_, _, code, field]) = open(&server, &key, "Eve").await;
    assert_eq!((status, code, field), (422, json!("idempotency_mismatch"), json!("Idempotency-Key")));
    assert_eq!(open(&server, &key, "Ada").await, first, "a refusal is not remembered");
}

#[test]
fn a_key_is_inspected_by_what_serve_would_go_by() {
    let folder = tempfile::tempdir().unwrap();
    let key = new_key(folder.path(), &["--id", "ada", "--permission", "claim"]);
    let file = folder.path().join("f.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(folder.path().join("key"), &key).unwrap();
    let inspect = || lockhouse(folder.path(), &["token", "inspect", "--config", "f.toml", "key"]);
    assert_eq!(run(&mut inspect()).0, Some(0));

    // The environment goes before the file.
    let (code, _, stderr) = run(inspect().env("LOCKHOUSE_AUTH_KEYS", "[]"));
    assert!(code == Some(1) && stderr.contains("nobody needs a credential"), "{stderr}");
    let other = "[{ id = \"bob\", hash = \"sha256:".to_owned()
        + &"0".repeat(64)
        + "\", buckets = { a = [\"claim\"] } }]";
    let (code, _, stderr) = run(inspect().env("LOCKHOUSE_AUTH_KEYS", other));
    assert_eq!(code, Some(1), "{stderr}");

    // Every fault is reported with its line, and no key with it.
    fs::write(&file, format!("lease = 7\n{text}tenant = {key}\n")).unwrap();
    let (code, _, stderr) = run(&mut inspect());
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.lines().all(|line| line.starts_with("lockhouse: f.toml:")), "{stderr}");
    assert!(!stderr.contains(&key), "{stderr}");
    fs::write(&file, text.replace("sha256:", "md5:")).unwrap();
    let (code, _, stderr) = run(&mut inspect());
    assert_eq!((code, stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.starts_with("lockhouse: f.toml:") && stderr.contains("hash: must be sha256:"), "{stderr}");
}
