//! The audit log of a server whose callers ask for what they may not have, again and again.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use traces::Kind;

use crate::config::keys::new_key;
use crate::running::{Running, lockhouse, run};

/// More than are logged of one caller.
const OFTEN: usize = 300;

/// The deeds of an operator, each time.
const DEEDS: usize = 30;

#[tokio::test]
async fn repeated_denials_do_not_fill_the_log_and_every_action_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let key = new_key(folder.path(), &["--id", "ops", "--permission", "claim", "--permission", "operate"]);
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let url = |path: &str| format!("http://{}/v1/buckets/b/{path}", server.address);
    let http = reqwest::Client::new();
    let call = async |request: reqwest::RequestBuilder, key: Option<&str>, body: Value| {
        let request = key.into_iter().fold(request, |request, key| request.header("lockhouse-key", key));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap_or_default())
    };
    for number in 0..OFTEN {
        // A bucket and a secret of its own each time.
        let url = format!("http://{}/v1/buckets/b{number}/claims", server.address);
        let (status, _) = call(http.post(&url), Some(&format!("lhk_ops_{number}")), json!({})).await;
        assert_eq!(status, 401);
        let (status, _) = call(http.get(url), Some(&key), json!({})).await;
        assert_eq!(status, 403);
    }
    for number in 0..DEEDS {
        let claim = json!({"resource": format!("seat/{number}"), "claimant": "Ada"});
        let (status, claim) = call(http.post(url("claims")), Some(&key), claim).await;
        assert_eq!(status, 201, "{claim}");
        let finalize = json!({"resource": format!("seat/{number}"), "token": claim["token"]});
        assert_eq!(call(http.post(url("claims/finalize")), Some(&key), finalize).await.0, 200);
        let unassign = http.delete(url(&format!("assignments?resource=seat/{number}")));
        assert_eq!(call(unassign, Some(&key), Value::Null).await.0, 200);
    }
    let (code, lines) = server.terminate();
    assert_eq!(code, Some(0));
    let with =
        |parts: &[&str]| lines.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    let logged = with(&["why=", "POST /v1/buckets/{bucket}/claims"]);
    assert_eq!(logged, 10, "{lines:#?}");
    assert_eq!(with(&["why=", "key=\"ops\"", "GET /v1/buckets/{bucket}/claims"]), 10, "{lines:#?}");
    let left_out = format!("left_out={}", OFTEN - 10);
    assert_eq!(with(&["audit", &left_out, "from=127.0.0.1", "POST"]), 1, "{lines:#?}");
    assert_eq!(with(&["audit", &left_out, "key=\"ops\"", "GET"]), 1, "{lines:#?}");
    assert_eq!(with(&["audit", " done ", "unassign"]), DEEDS, "{lines:#?}");
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn socket(server: &Running) -> Socket {
    let mut request = format!("ws://{}/v1/ws", server.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("lockhouse.v1"));
    connect_async(request).await.unwrap().0
}

async fn send(socket: &mut Socket, frame: Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

/// The next frame of that type.
async fn next(socket: &mut Socket, kind: &str) -> Value {
    loop {
        let Message::Text(text) = socket.next().await.unwrap().unwrap() else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        let frames = message.as_array().cloned().unwrap_or_else(|| vec![message]);
        let mut found = frames.into_iter().filter(|frame| frame["type"] == kind);
        if let Some(frame) = found.next() {
            assert_eq!(found.next(), None, "the next one would be missed");
            return frame;
        }
    }
}

/// The lines of the audit log with all of these in them.
fn audited<'l>(lines: &'l [String], parts: &[&str]) -> Vec<&'l String> {
    let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
    lines.iter().filter(|line| line.contains("audit")).filter(has_all).collect()
}

#[tokio::test]
async fn a_steal_is_noted_once_it_has_taken_something_and_a_refused_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("a.db").display());
    let server = Running::of(lockhouse(
        folder.path(),
        &["serve", "--listen", "127.0.0.1:0", "--store", &store, "--lease", "500ms"],
    ));
    let mut socket = socket(&server).await;
    send(&mut socket, json!({"type": "hello", "client": "test"})).await;
    traces::secret(Kind::SessionSecret, next(&mut socket, "welcome").await["secret"].as_str().unwrap());
    send(&mut socket, json!({"type": "join", "agent": 1, "clientId": "A", "seq": 1})).await;
    let long = "n".repeat(3000);
    let ask = |id: u64, name: &str, more: Value| {
        let mut frame = json!({"type": "request", "id": id, "agent": 1, "name": name, "seq": id + 1});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    let steal = json!({"steal": true});
    // Two readers, one writer of a long name.
    for (id, name) in [(1, "shared"), (2, "shared"), (3, &*long)] {
        let more = if id < 3 { json!({"mode": "shared"}) } else { json!({}) };
        send(&mut socket, ask(id, name, more)).await;
        assert_eq!(next(&mut socket, "granted").await["id"], id);
    }
    for (id, name) in [(4, "shared"), (5, &*long), (6, "free")] {
        send(&mut socket, ask(id, name, steal.clone())).await;
        assert_eq!(next(&mut socket, "granted").await["id"], id);
    }
    send(&mut socket, ask(7, &"m".repeat(60_000), steal.clone())).await;
    assert_eq!(next(&mut socket, "error").await["code"], "quota_exceeded");
    // A thief that goes before its answer comes has stolen all the same.
    send(&mut socket, ask(8, "free", steal)).await;
    send(&mut socket, json!({"type": "bye"})).await;
    while socket.next().await.is_some_and(|message| message.is_ok()) {}
    let (_, lines) = server.terminate();
    let steals = audited(&lines, &["what=\"steal\""]);
    assert_eq!(steals.len(), 3, "{steals:#?}");
    assert!(steals[0].contains("from=127.0.0.1 what=\"steal\""), "{steals:#?}");
    assert!(steals[0].contains("name=\"shared\" lost=2 why="), "{steals:#?}");
    assert!(steals[1].contains(&("n".repeat(256) + "…\" lost=1 why=")), "{steals:#?}");
    assert!(steals[2].contains("name=\"free\" lost=1 why="), "{steals:#?}");
    assert!(steals[0].contains("victims=\"web lock of A, web lock of A\""), "{steals:#?}");
}

#[tokio::test]
async fn a_steal_of_a_durable_lock_is_logged_with_its_victim_and_a_denied_one_as_a_steal() {
    let folder = tempfile::tempdir().unwrap();
    let may = |id: &str, permissions: &[&str]| {
        let permissions = permissions.iter().flat_map(|permission| ["--permission", permission]);
        new_key(folder.path(), &["--id", id].into_iter().chain(permissions).collect::<Vec<_>>())
    };
    let (thief, ops) = (may("thief", &["steal"]), may("ops", &["steal", "operate", "claim"]));
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let url = format!("http://{}/v1/buckets/default/claims", server.address);
    let request = reqwest::Client::new().post(url).header("lockhouse-key", &ops);
    let body = json!({"resource": "seat", "claimant": "Anna"}).to_string();
    let claim = request.header("content-type", "application/json").body(body).send().await.unwrap();
    assert_eq!(claim.status().as_u16(), 201);
    traces::answer(&claim.text().await.unwrap());
    for (key, answer) in [(&thief, "error"), (&ops, "granted")] {
        let mut socket = socket(&server).await;
        send(&mut socket, json!({"type": "hello", "credential": key})).await;
        let welcome = next(&mut socket, "welcome").await;
        traces::secret(Kind::SessionSecret, welcome["secret"].as_str().unwrap());
        send(&mut socket, json!({"type": "join", "agent": 1, "clientId": "A", "seq": 1})).await;
        let steal = json!({"type": "request", "id": 1, "agent": 1, "name": "seat", "steal": true, "seq": 2});
        send(&mut socket, steal).await;
        next(&mut socket, answer).await;
    }
    let (_, lines) = server.terminate();
    let denied = audited(&lines, &["denied", "key=\"thief\"", "what=\"steal\"", "operate", "name=\"seat\""]);
    assert_eq!(denied.len(), 1, "{lines:#?}");
    let done = audited(&lines, &["done", "key=\"ops\"", "lost=1", "victims=\"claim of Anna\""]);
    assert_eq!(done.len(), 1, "{lines:#?}");
}

#[tokio::test]
async fn a_foreign_secret_is_noted_without_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let store = format!("sqlite:{}", file.display());
    let server = Running::of(lockhouse(
        folder.path(),
        &["serve", "--listen", "127.0.0.1:0", "--store", &store, "--lease", "500ms"],
    ));
    const WRONG: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let http = reqwest::Client::new();
    let call = async |path: &str, headers: &[(&str, &str)], body: Value| {
        let mut request = http.post(format!("http://{}{path}", server.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = request.send().await.unwrap();
        (
            answer.status().as_u16(),
            serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap_or_default(),
        )
    };
    let wrong = [("authorization", format!("Bearer {WRONG}"))];
    let wrong = [(wrong[0].0, &*wrong[0].1)];
    let base = "/v1/buckets/b";
    let (status, _) = call("/v1/backup", &wrong, json!({"file": "/nowhere/b.db"})).await;
    assert_eq!(status, 401);
    let (status, owner) = call(&format!("{base}/owners"), &[], json!({"label": "A"})).await;
    assert_eq!(status, 201, "{owner}");
    traces::answer(&owner.to_string());
    let beat = format!("{base}/owners/{}/heartbeat", owner["owner"].as_str().unwrap());
    assert_eq!(call(&beat, &wrong, json!({})).await.0, 401);
    assert_eq!(call(&beat, &[], json!({})).await.0, 401);
    let (status, claim) =
        call(&format!("{base}/claims"), &[], json!({"resource": "r", "claimant": "A"})).await;
    assert_eq!(status, 201, "{claim}");
    traces::answer(&claim.to_string());
    let (status, lost) =
        call(&format!("{base}/claims/renew"), &[], json!({"resource": "r", "token": WRONG})).await;
    assert_eq!((status, &lost["code"]), (409, &json!("claim_lost")));
    // Of a claim that has ended nothing can be had by any token.
    let release = json!({"resource": "r", "token": claim["token"]});
    for status in [200, 410] {
        assert_eq!(call(&format!("{base}/claims/release"), &[], release.clone()).await.0, status);
    }
    for header in ["host", "origin"] {
        let value = if header == "host" { "evil.example" } else { "https://evil.example" };
        assert_eq!(call(&format!("{base}/claims"), &[(header, value)], json!({})).await.0, 403);
    }
    let mut first = socket(&server).await;
    send(&mut first, json!({"type": "hello"})).await;
    let welcome = next(&mut first, "welcome").await;
    traces::secret(Kind::SessionSecret, welcome["secret"].as_str().unwrap());
    let mut second = socket(&server).await;
    let resume = json!({"session": welcome["session"], "secret": WRONG, "received": 0});
    send(&mut second, json!({"type": "hello", "resume": resume})).await;
    assert_eq!(next(&mut second, "welcome").await["resumed"], false);
    send(&mut second, json!({"type": "join", "agent": 1, "clientId": "A", "seq": 1})).await;
    let reclaim = json!({"type": "reclaim", "id": 1, "agent": 1, "name": "n", "mode": "exclusive",
        "token": 1, "ticket": WRONG, "seq": 2});
    send(&mut second, reclaim).await;
    assert_eq!(next(&mut second, "lost").await["reason"], "superseded");
    drop((first, second));
    let (_, lines) = server.terminate();
    for parts in [
        ["POST /v1/backup", "name=\"/nowhere/b.db\"", "the secret of the operator"],
        ["owners/{owner}/heartbeat", "bucket=\"b\"", "the secret of the owner"],
        ["owners/{owner}/heartbeat", "from=127.0.0.1", "no secret"],
        ["claims/renew", "name=\"r\"", "the token of the claim"],
        ["what=\"host\"", "name=\"evil.example\"", "from=127.0.0.1"],
        ["what=\"origin\"", "name=\"https://evil.example\"", "from=127.0.0.1"],
        ["what=\"resume\"", "bucket=\"default\"", "the secret of the session"],
        ["what=\"reclaim\"", "name=\"n\"", "no ticket"],
    ] {
        let denied = audited(&lines, &[parts[0], parts[1], parts[2], "denied"]);
        assert_eq!(denied.len(), 1, "{parts:?} {lines:#?}");
    }
    assert!(audited(&lines, &["claims/release"]).is_empty(), "{lines:#?}");
    assert!(audited(&lines, &[WRONG]).is_empty(), "{lines:#?}");
}

#[tokio::test]
async fn an_operator_says_why_an_assignment_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let url = format!("http://{}", server.address);
    let command = |arguments: &[&str]| {
        let (code, out, stderr) = run(&mut lockhouse(folder.path(), &[arguments, &["--url", &url]].concat()));
        assert_eq!(code, Some(0), "{stderr}");
        out
    };
    let claim = command(&["claim", "seat", "--claimant", "Ada", "--ttl", "1m", "--json"]);
    traces::answer(&claim);
    let claim: Value = serde_json::from_str(&claim).unwrap();
    command(&["finalize", "seat", claim["token"].as_str().unwrap()]);
    command(&["assignments", "delete", "seat", "--reason", "cancelled by phone"]);
    let (_, lines) = server.terminate();
    let logged = audited(&lines, &["what=\"unassign\"", "name=\"seat\" why=\"cancelled by phone\""]);
    assert_eq!(logged.len(), 1, "{lines:#?}");
}
