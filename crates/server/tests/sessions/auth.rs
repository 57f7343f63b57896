//! The clients that are let in, their tenants, and the ends of sessions that were let in.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use lockhouse_server::auth::{Algorithm, Authority, JwtSettings, KeySettings, Permission, Settings};
use lockhouse_server::{AuthenticationStays, BindError, Config, bind};
use serde_json::{Value, json};
use traces::Kind;

use crate::sessions::support::keys::{key, settings};
use crate::sessions::support::{Client, PATIENCE, TestServer, config};

pub(crate) async fn server(settings: &Settings) -> TestServer {
    let authority = Authority::new(settings).unwrap();
    TestServer::with(Config { authority, ..config(10_000) }).await
}

/// The server's first frame to that credential.
async fn greeted(server: &TestServer, query: &str, credential: Option<&str>) -> (Client, Value) {
    let mut client = Client::open(server.address, query).await;
    client.send(json!({"type": "hello", "credential": credential})).await;
    let first = client.next().await;
    (client, first)
}

async fn client(server: &TestServer, credential: &str) -> Client {
    let (mut client, welcome) = greeted(server, "", Some(credential)).await;
    assert_eq!(welcome["type"], "welcome", "{welcome}");
    client.welcome = welcome;
    client.join(1).await;
    client
}

#[tokio::test]
async fn a_session_needs_a_credential_that_is_taken() {
    let (text, ada) = key("ada", "acme", &[Permission::Request]);
    let server = server(&settings(vec![ada])).await;
    for wrong in [None, Some("x"), Some("lhk_ada_00"), Some("lhk_bob_00"), Some(&text[..text.len() - 1])] {
        let (mut client, fatal) = greeted(&server, "", wrong).await;
        assert_eq!((&fatal["type"], &fatal["code"]), (&"fatal".into(), &"unauthenticated".into()), "{fatal}");
        assert!(!fatal.to_string().contains(&text[8..]), "no secret is repeated");
        assert_eq!(client.closed().await, 4401);
    }
    let (_, welcome) = greeted(&server, "", Some(&text)).await;
    assert_eq!((&welcome["type"], welcome.get("credentialMs")), (&"welcome".into(), None));
    assert_eq!(server.server.session_count(), 1);
}

#[tokio::test]
async fn tenants_hold_the_same_name_side_by_side() {
    let (one, ada) = key("ada", "acme", &Permission::ALL);
    let (other, bob) = key("bob", "beta", &Permission::ALL);
    let server = server(&settings(vec![ada, bob])).await;
    for credential in [one, other] {
        let mut client = client(&server, &credential).await;
        client.request(1, 1, "n").await;
        assert_eq!(client.next().await["type"], "granted");
        client.send(json!({"type": "query", "id": 2})).await;
        assert_eq!(client.next().await["held"].as_array().unwrap().len(), 1);
        // The lock of the client stays until the end of the test.
        std::mem::forget(client);
    }
}

#[tokio::test]
async fn no_client_reaches_another_tenant_by_a_partition() {
    let (text, bob) = key("bob", "default", &Permission::ALL);
    let server = server(&settings(vec![bob])).await;
    let (_, fatal) = greeted(&server, "?partition=%1Facme%1F%1F%1F", Some(&text)).await;
    assert_eq!((&fatal["type"], &fatal["code"]), (&"fatal".into(), &"forbidden".into()), "{fatal}");
}

#[tokio::test]
async fn a_deleted_key_ends_its_sessions_and_frees_their_locks() {
    let (gone, ada) = key("ada", "acme", &Permission::ALL);
    let (stays, bob) = key("bob", "acme", &Permission::ALL);
    let server = server(&settings(vec![ada, bob.clone()])).await;
    let mut victim = client(&server, &gone).await;
    victim.request(1, 1, "n").await;
    assert_eq!(victim.next().await["type"], "granted");
    let mut waiter = client(&server, &stays).await;
    waiter.request(1, 1, "n").await;
    server.server.reload_auth(Authority::new(&settings(vec![bob])).unwrap()).unwrap();
    assert_eq!(victim.next().await["code"], "unauthenticated");
    assert_eq!(victim.closed().await, 4401);
    assert_eq!(waiter.next().await["type"], "granted");
}

#[tokio::test]
async fn a_session_without_a_connection_ends_with_its_key_too() {
    let (gone, ada) = key("ada", "acme", &Permission::ALL);
    let (_, bob) = key("bob", "acme", &Permission::ALL);
    let server = server(&settings(vec![ada, bob.clone()])).await;
    let victim = client(&server, &gone).await;
    drop(victim.socket);
    server.server.reload_auth(Authority::new(&settings(vec![bob])).unwrap()).unwrap();
    server.is_empty_within(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_key_that_may_do_less_ends_its_sessions_and_one_that_may_do_more_does_not() {
    use Permission::{Query, Request, Steal};
    let (text, ada) = key("ada", "acme", &[Request, Query]);
    let server = server(&settings(vec![ada.clone()])).await;
    let mut client = client(&server, &text).await;
    let with = |permissions: &[Permission]| {
        let buckets = BTreeMap::from([("default".to_owned(), permissions.to_vec())]);
        let changed = settings(vec![KeySettings { buckets, ..ada.clone() }]);
        server.server.reload_auth(Authority::new(&changed).unwrap()).unwrap();
    };
    with(&[Request, Query, Steal]);
    client.call(json!({"type": "request", "id": 1, "agent": 1, "name": "n", "steal": true})).await;
    assert_eq!(client.next().await["type"], "granted");
    with(&[Request, Steal]);
    let fatal = client.next().await;
    assert_eq!(fatal["code"], "forbidden");
    assert!(fatal["message"].as_str().unwrap().contains("\"query\""), "{fatal}");
    assert_eq!(client.closed().await, 4403);
    server.is_empty_within(PATIENCE).await;
}

#[tokio::test]
async fn a_resume_by_a_credential_that_may_do_less_ends_the_session_with_its_locks() {
    use Permission::{Query, Request, Steal};
    let (strong, ada) = key("ada", "acme", &[Request, Query]);
    let (weak, bob) = key("bob", "acme", &[Query, Steal]);
    let (stays, eve) = key("eve", "acme", &[Request]);
    let server = server(&settings(vec![ada, bob, eve])).await;
    let mut session = client(&server, &strong).await;
    session.request(1, 1, "n").await;
    session.granted(1).await;
    let mut waiter = client(&server, &stays).await;
    waiter.request(1, 1, "n").await;
    let mut resumed = Client::open(server.address, "").await;
    let secret = &session.welcome["secret"];
    let resume =
        json!({"session": session.welcome["session"], "secret": secret, "received": session.received});
    resumed.send(json!({"type": "hello", "resume": resume, "credential": weak})).await;
    let fatal = resumed.next().await;
    assert_eq!((&fatal["type"], &fatal["code"]), (&"fatal".into(), &"forbidden".into()), "{fatal}");
    assert!(fatal["message"].as_str().unwrap().contains("\"request\""), "{fatal}");
    assert_eq!(resumed.closed().await, 4403);
    waiter.granted(1).await;
}

#[tokio::test]
async fn a_resume_by_a_credential_that_may_do_more_goes_on_with_the_session() {
    use Permission::{Query, Request};
    let (weak, ada) = key("ada", "acme", &[Request]);
    let (strong, bob) = key("bob", "acme", &[Request, Query]);
    let server = server(&settings(vec![ada, bob])).await;
    let session = client(&server, &weak).await;
    let mut resumed = Client::open(server.address, "").await;
    let resume =
        json!({"session": session.welcome["session"], "secret": session.welcome["secret"], "received": 0});
    resumed.send(json!({"type": "hello", "resume": resume, "credential": strong})).await;
    assert_eq!(resumed.next().await["resumed"], true);
    resumed.seq = session.seq;
    resumed.call(json!({"type": "query", "id": 1})).await;
    while resumed.next().await["type"] != "snapshot" {}
}

/// The settings of an issuer whose tokens are signed with `SECRET`, in a file that lives as long as the
/// folder.
pub(crate) fn issuer(folder: &tempfile::TempDir) -> JwtSettings {
    let file = folder.path().join("key");
    std::fs::write(&file, SECRET).unwrap();
    JwtSettings {
        id: "idp".to_owned(),
        algorithm: Algorithm::HS256,
        key_file: Some(file),
        key_env: None,
        jwks_file: None,
        issuer: "idp".to_owned(),
        audience: "lockhouse".to_owned(),
        leeway: Duration::ZERO,
        tenant: None,
    }
}

pub(crate) const SECRET: &str = "a secret of the issuer that is long enough";

fn token(seconds: u64) -> String {
    token_of(SECRET, None, seconds)
}

fn token_of(secret: &str, kid: Option<&str>, seconds: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({
        "iss": "idp", "aud": "lockhouse", "exp": now + seconds, "tenant": "acme",
        "buckets": {"default": ["request"]},
    });
    let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
    let header = jsonwebtoken::Header { kid: kid.map(str::to_owned), ..Default::default() };
    let token = jsonwebtoken::encode(&header, &claims, &key).unwrap();
    traces::secret(Kind::Token, &token);
    token
}

#[tokio::test]
async fn a_session_ends_with_its_token_unless_it_was_resumed_with_a_newer_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&Settings { jwt: vec![issuer(&folder)], ..Settings::default() }).await;
    let short = token(3);
    let mut ends = client(&server, &short).await;
    let left = ends.welcome["credentialMs"].as_u64().unwrap();
    assert!((1..=3000).contains(&left), "{left}");
    let stays = client(&server, &short).await;
    let mut resumed = Client::open(server.address, "").await;
    let resume =
        json!({"session": stays.welcome["session"], "secret": stays.welcome["secret"], "received": 0});
    resumed.send(json!({"type": "hello", "resume": resume, "credential": token(1000)})).await;
    assert_eq!(resumed.next().await["resumed"], true);
    assert_eq!(ends.next().await["code"], "unauthenticated");
    assert_eq!(ends.closed().await, 4401);
    assert_eq!(server.server.session_count(), 1);
}

#[tokio::test]
async fn a_key_set_is_read_again_and_the_sessions_of_a_key_that_has_left_it_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let rotate = |keys: &[(&str, &str)]| {
        let jwk = |(kid, secret): &(&str, &str)| {
            let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
            let mut jwk = Jwk::from_encoding_key(&key, jsonwebtoken::Algorithm::HS256).unwrap();
            jwk.common.key_id = Some((*kid).to_owned());
            jwk
        };
        let set = JwkSet { keys: keys.iter().map(jwk).collect() };
        std::fs::write(&file, serde_json::to_string(&set).unwrap()).unwrap();
        Settings {
            jwt: vec![JwtSettings { key_file: None, jwks_file: Some(file.clone()), ..issuer(&folder) }],
            ..Settings::default()
        }
    };
    let (old, new) = (("1", SECRET), ("2", "another secret of the issuer, as long"));
    let of = |(kid, secret): (&str, &str)| token_of(secret, Some(kid), 1000);
    let server = server(&rotate(&[old])).await;
    let reload = |settings: &Settings| server.server.reload_auth(Authority::new(settings).unwrap()).unwrap();
    let mut before = client(&server, &of(old)).await;
    assert_eq!(greeted(&server, "", Some(&of(new))).await.1["code"], "unauthenticated");

    // While both are in the set, both are taken, and no session ends.
    reload(&rotate(&[old, new]));
    let mut after = client(&server, &of(new)).await;
    before.request(1, 1, "old").await;
    before.granted(1).await;

    reload(&rotate(&[new]));
    assert_eq!(before.next().await["code"], "unauthenticated");
    assert_eq!(before.closed().await, 4401);
    assert_eq!(greeted(&server, "", Some(&of(old))).await.1["code"], "unauthenticated");
    after.request(1, 1, "old").await;
    after.granted(1).await;
}

#[tokio::test]
async fn a_deleted_key_ends_its_sessions_though_the_keys_of_an_issuer_cannot_be_read() {
    let (gone, ada) = key("ada", "acme", &Permission::ALL);
    let folder = tempfile::tempdir().unwrap();
    let jwt = issuer(&folder);
    let file = jwt.key_file.clone().unwrap();
    let with = |keys| Settings { keys, jwt: vec![jwt.clone()], ..Settings::default() };
    let server = server(&with(vec![ada.clone()])).await;
    let mut victim = client(&server, &gone).await;
    let mut stays = client(&server, &token(1000)).await;
    std::fs::remove_file(file).unwrap();
    assert!(server.server.renew_auth(&with(Vec::new())));
    assert_eq!(victim.next().await["code"], "unauthenticated");
    assert_eq!(victim.closed().await, 4401);
    // The issuer stays what it was, for as long as it is named.
    stays.request(1, 1, "n").await;
    stays.granted(1).await;
    assert!(server.server.renew_auth(&settings(vec![ada])));
    assert_eq!(stays.next().await["code"], "unauthenticated");
}

#[tokio::test]
async fn a_session_is_resumed_only_by_its_tenant() {
    let (one, ada) = key("ada", "acme", &Permission::ALL);
    let (other, bob) = key("bob", "beta", &Permission::ALL);
    let server = server(&settings(vec![ada, bob])).await;
    let session = client(&server, &one).await;
    for (credential, resumes) in [(other, false), (one, true)] {
        let mut client = Client::open(server.address, "").await;
        let resume = json!({"session": session.welcome["session"], "secret": session.welcome["secret"], "received": 0});
        client.send(json!({"type": "hello", "resume": resume, "credential": credential})).await;
        assert_eq!(client.next().await["resumed"], resumes);
    }
}

#[tokio::test]
async fn a_steal_spares_claims_and_offline_locks_of_those_who_may_not_operate() {
    use Permission::{Operate, Request, Steal};
    let (text, ada) = key("ada", "default", &[Request, Steal]);
    let (operator, bob) = key("bob", "default", &[Steal, Operate]);
    let server = server(&settings(vec![ada, bob])).await;
    let bucket = server.server.houses()[0].bucket("default");
    let mut claim = bucket.claims().claim("claimed", "Eve", Duration::from_secs(60)).await.unwrap();
    let owner = bucket.owners().open("Eve", Duration::from_secs(60)).await.unwrap();
    let locked = lockhouse::Name::new("locked").unwrap();
    owner.lock_names(&[(locked, lockhouse::Mode::Exclusive)], None).await.unwrap();
    let mut thief = client(&server, &text).await;
    let steal =
        |id: u64, name: &str| json!({"type": "request", "id": id, "agent": 1, "name": name, "steal": true});
    for (id, name) in [(1, "claimed"), (2, "locked")] {
        thief.call(steal(id, name)).await;
        let error = thief.next().await;
        assert_eq!((&error["code"], &error["id"]), (&"forbidden".into(), &id.into()), "{error}");
        assert!(error["rule"].as_str().unwrap().contains("\"operate\""), "{error}");
    }
    thief.call(steal(3, "free")).await;
    assert_eq!(thief.next().await["type"], "granted");
    claim.renew().await.unwrap();
    assert_eq!(owner.locks().await.unwrap().len(), 1);
    let mut operator = client(&server, &operator).await;
    for (id, name) in [(1, "claimed"), (2, "locked")] {
        operator.call(steal(id, name)).await;
        assert_eq!(operator.next().await["type"], "granted");
    }
    assert!(owner.locks().await.unwrap().is_empty());
}

#[tokio::test]
async fn authentication_does_not_begin_with_a_reload() {
    let (_, ada) = key("ada", "acme", &Permission::ALL);
    let keys = Authority::new(&settings(vec![ada])).unwrap();
    let open = TestServer::start().await;
    assert_eq!(open.server.reload_auth(keys), Err(AuthenticationStays));
}

#[tokio::test]
async fn without_any_key_no_client_is_admitted_until_there_is_one_again() {
    let (text, ada) = key("ada", "acme", &Permission::ALL);
    let keys = Authority::new(&settings(vec![ada])).unwrap();
    let server = TestServer::with(Config { authority: keys.clone(), ..config(10_000) }).await;
    let mut client = client(&server, &text).await;
    assert_eq!(server.server.reload_auth(Authority::default()), Ok(()));
    assert_eq!(client.next().await["code"], "unauthenticated");
    assert_eq!(client.closed().await, 4401);
    for credential in [Some(&*text), None] {
        let (_, fatal) = greeted(&server, "", credential).await;
        assert_eq!(fatal["code"], "unauthenticated", "{fatal}");
    }
    // Again and again.
    assert_eq!(server.server.reload_auth(Authority::default()), Ok(()));
    let (_, fatal) = greeted(&server, "", None).await;
    assert_eq!(fatal["code"], "unauthenticated", "{fatal}");
    assert_eq!(server.server.reload_auth(keys), Ok(()));
    let (_, welcome) = greeted(&server, "", Some(&text)).await;
    assert_eq!(welcome["type"], "welcome");
}

#[tokio::test]
async fn any_address_is_listened_on_where_there_are_keys_and_no_other_than_loopback_where_there_are_none() {
    let (_, ada) = key("ada", "acme", &Permission::ALL);
    let keys = Authority::new(&settings(vec![ada])).unwrap();
    let refused = bind("0.0.0.0:0", &Authority::default()).await.unwrap_err();
    assert!(matches!(refused, BindError::NotLoopback(_)));
    bind("0.0.0.0:0", &keys).await.unwrap();
}

#[tokio::test]
async fn wrong_settings_are_reported_with_member_and_rule() {
    let (_, good) = key("ada", "acme", &Permission::ALL);
    let message = |change: fn(&mut KeySettings)| {
        let mut key = good.clone();
        change(&mut key);
        Authority::new(&settings(vec![key])).unwrap_err().to_string()
    };
    assert!(
        message(|key| key.id = "Ada".to_owned()).starts_with("auth.keys[0].id: is \"Ada\", but must be ")
    );
    assert!(
        message(|key| key.hash = "md5:00".to_owned()).starts_with("auth.keys[0].hash: must be sha256: and ")
    );
    assert!(
        message(|key| key.tenant = "a b".to_owned()).starts_with("auth.keys[0].tenant: is \"a b\", but ")
    );
    assert!(message(|key| key.session = Some(String::new())).starts_with("auth.keys[0].session: "));
    assert!(message(|key| key.buckets.clear()).starts_with("auth.keys[0].buckets: is empty, but "));
    let starred = message(|key| _ = key.buckets.insert("a*b".to_owned(), vec![Permission::Query]));
    assert!(
        starred.starts_with("auth.keys[0].buckets.\"a*b\": must be the name of a bucket, or a prefix"),
        "{starred}"
    );
    let twice = Authority::new(&settings(vec![good.clone(), good.clone()])).unwrap_err().to_string();
    assert!(twice.starts_with("auth.keys[1].id: is \"ada\", which stands there twice"), "{twice}");

    let folder = tempfile::tempdir().unwrap();
    let message = |change: fn(&mut JwtSettings)| {
        let mut jwt = issuer(&folder);
        change(&mut jwt);
        Authority::new(&Settings { jwt: vec![jwt], ..Settings::default() }).unwrap_err().to_string()
    };
    assert!(
        message(|jwt| jwt.key_file = Some("/nowhere".into()))
            .starts_with("auth.jwt[0].key_file: /nowhere cannot be read")
    );
    assert!(
        message(|jwt| jwt.key_file = None)
            .starts_with("auth.jwt[0]: exactly one of key_file, key_env and jwks_file")
    );
    assert!(message(|jwt| jwt.algorithm = Algorithm::EdDSA).contains("no public key for EdDSA in PEM"));
    let pem = message(|jwt| {
        // A client with the public key could sign with it.
        let pem = "\u{FEFF}\r\n-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        std::fs::write(jwt.key_file.as_ref().unwrap(), pem).unwrap();
    });
    assert!(pem.starts_with("auth.jwt[0].key_file: ") && pem.contains("has a PEM in it"), "{pem}");
    assert!(!pem.contains("MCow"), "{pem}");
    assert!(
        message(|jwt| jwt.leeway = Duration::from_secs(301))
            .starts_with("auth.jwt[0].leeway: is 5m 1s, but must be at most 5m")
    );
    assert!(message(|jwt| jwt.audience.clear()).starts_with("auth.jwt[0].audience: is empty"));
}

#[tokio::test]
async fn an_idempotency_key_brings_no_answer_of_another_caller() {
    let (one, ada) = key("ada", "acme", &Permission::ALL);
    let (other, bob) = key("bob", "acme", &Permission::ALL);
    let (stranger, eve) = key("eve", "beta", &Permission::ALL);
    let server = server(&settings(vec![ada, bob, eve])).await;
    let http = reqwest::Client::new();
    let mut secrets = std::collections::BTreeSet::new();
    for (credential, replayed) in [(&one, false), (&one, true), (&other, false), (&stranger, false)] {
        let url = format!("http://{}/v1/buckets/default/owners", server.address);
        let request = http.post(url).header("lockhouse-key", credential).header("idempotency-key", "k");
        let request = request.header("content-type", "application/json").body(r#"{"label":"Ada"}"#);
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 201);
        assert_eq!(response.headers().contains_key("idempotency-replayed"), replayed, "{credential}");
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        secrets.insert(body["ownerSecret"].as_str().unwrap().to_owned());
    }
    assert_eq!(secrets.len(), 3);
}

#[tokio::test]
async fn an_idempotency_key_brings_no_claim_of_another_caller() {
    let (one, ada) = key("ada", "acme", &Permission::ALL);
    let (other, bob) = key("bob", "acme", &Permission::ALL);
    let server = server(&settings(vec![ada, bob])).await;
    let http = reqwest::Client::new();
    let claim = async |credential: &str, idempotency_key: Option<&str>, claim_key: Option<&str>| {
        let url = format!("http://{}/v1/buckets/default/claims", server.address);
        let mut body = json!({"resource": "seat", "claimant": "Ada"});
        if let Some(claim_key) = claim_key {
            body["claimKey"] = claim_key.into();
        }
        let request = http.post(url).header("lockhouse-key", credential).body(body.to_string());
        let request = request.header("content-type", "application/json");
        let request =
            idempotency_key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        (status, body["token"].as_str().map(str::to_owned))
    };
    let (status, first) = claim(&one, Some("k"), None).await;
    assert_eq!((status, first.is_some()), (201, true));
    traces::secret(Kind::ClaimToken, first.as_deref().unwrap());
    assert_eq!(claim(&other, Some("k"), None).await, (409, None));
    // Nor does a key of the claim that looks like it.
    for claim_key in ["k", "kada", "k ada", "ada", "ada/k"] {
        assert_eq!(claim(&other, None, Some(claim_key)).await, (409, None), "{claim_key}");
    }
    // Nor does the very one that the server makes of both.
    let made = format!("{:<256}ada", "k");
    assert_eq!(claim(&other, None, Some(&made)).await, (422, None));
    assert_eq!(claim(&one, Some("k"), None).await, (201, first));
}

#[tokio::test]
async fn an_impossible_bucket_name_is_shortened_in_the_answer_to_a_caller_without_permission() {
    let (text, mut ada) = key("ada", "acme", &Permission::ALL);
    ada.buckets = BTreeMap::from([("orders".to_owned(), vec![Permission::Query])]);
    let server = server(&settings(vec![ada])).await;
    let http = reqwest::Client::new();
    let query = async |bucket: &str| {
        let url = format!("http://{}/v1/buckets/{bucket}/query", server.address);
        let response = http.get(url).header("lockhouse-key", &text).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(query("seats").await.0, 403);
    let (status, message) = query(&"b".repeat(5000)).await;
    assert_eq!(status, 422, "{message}");
    assert!(message.len() < 1000 && message.contains("\"field\":\"bucket\""), "{message}");
}

#[tokio::test]
async fn an_idempotency_key_of_a_claim_is_shared_by_all_callers_with_it() {
    let (one, ada) = key("ada", "acme", &Permission::ALL);
    let (other, bob) = key("bob", "acme", &Permission::ALL);
    let server = server(&settings(vec![ada, bob])).await;
    let http = reqwest::Client::new();
    let mut tokens = Vec::new();
    for credential in [one, other] {
        let url = format!("http://{}/v1/buckets/default/claims", server.address);
        let request = http.post(url).header("lockhouse-key", credential);
        let request = request.header("content-type", "application/json");
        let body = r#"{"resource":"seat","claimant":"Ada","claimKey":"k"}"#;
        let response = request.body(body).send().await.unwrap();
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        tokens.push(body["token"].as_str().unwrap().to_owned());
    }
    traces::secret(Kind::ClaimToken, &tokens[0]);
    assert_eq!(tokens[0], tokens[1]);
}

#[tokio::test]
async fn a_server_with_keys_answers_under_any_name_and_refuses_pages_of_other_origins() {
    let (text, ada) = key("ada", "acme", &Permission::ALL);
    let server = server(&settings(vec![ada])).await;
    let http = reqwest::Client::new();
    let call = |name: &'static str, value: &'static str| {
        let url = format!("http://{}/v1/buckets/default/query", server.address);
        let request = http.get(url).header("lockhouse-key", &text).header(name, value);
        async { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(call("host", "locks.example").await, 200);
    assert_eq!(call("origin", "http://localhost:3000").await, 200);
    assert_eq!(call("origin", "https://evil.example").await, 403);
}
