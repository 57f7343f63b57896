//! Streams: what they say, where they go on, and when they end.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use traces::Kind;

use crate::events::stream::Stream;
use crate::exposition::Exposition;
use crate::running::{Running, lockhouse, run};

pub(crate) fn url(server: &Running) -> String {
    format!("http://{}", server.address)
}

pub(crate) async fn post(url: &str, path: &str, body: Value) -> Value {
    let response = Client::new().post(format!("{url}/v1/buckets/default/{path}")).json_of(&body);
    let text = response.send().await.unwrap().text().await.unwrap();
    traces::answer(&text);
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

pub(crate) trait JsonOf {
    fn json_of(self, body: &Value) -> Self;
}

impl JsonOf for reqwest::RequestBuilder {
    fn json_of(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }
}

/// A Web Lock that was held and released.
pub(crate) fn hold(folder: &Path, url: &str, name: &str) {
    let (code, _, error) = run(&mut lockhouse(folder, &["run", name, "--url", url, "--", "true"]));
    assert_eq!(code, Some(0), "{error}");
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_reported_of_all_disciplines_in_its_order_and_by_filters() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let url = url(&server);
    let mut all = Stream::open(&url, "").await;
    all.first_id().await;
    let mut seats = Stream::open(&url, "?prefix=seat%2F&kind=claim").await;
    let mut report = Stream::open(&url, "?name=report").await;

    hold(folder.path(), &url, "report");
    let claim = post(&url, "claims", json!({"resource": "seat/1", "claimant": "Anna"})).await;
    post(&url, "claims", json!({"resource": "seat/1", "claimant": "Bob"})).await;
    let finalized = json!({"resource": "seat/1", "token": claim["token"]});
    post(&url, "claims/finalize", finalized).await;
    let owner = post(&url, "owners", json!({"label": "Ada"})).await;
    traces::secret(Kind::OwnerSecret, owner["ownerSecret"].as_str().unwrap());
    let delete = Client::new()
        .delete(format!("{url}/v1/buckets/default/owners/{}", owner["owner"].as_str().unwrap()))
        .bearer_auth(owner["ownerSecret"].as_str().unwrap());
    assert_eq!(delete.send().await.unwrap().status(), 204);

    let expected = [
        ("granted", "report"),
        ("ended", "report"),
        ("granted", "seat/1"),
        ("refused", "seat/1"),
        ("assigned", "seat/1"),
        ("ended", "seat/1"),
        ("opened", ""),
        ("closed", ""),
    ];
    assert_eq!(all.kinds(8).await, pairs(&expected));
    assert_eq!(report.kinds(2).await, pairs(&expected[..2]));
    assert_eq!(seats.kinds(4).await, pairs(&expected[2..6]));
    // What comes next is behind all of that in each stream.
    hold(folder.path(), &url, "report");
    assert_eq!(report.kinds(2).await, pairs(&expected[..2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_behind_its_last_event_and_gets_the_state_where_that_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let url = url(&server);
    let mut first = Stream::open(&url, "").await;
    let begin = first.first_id().await;
    post(&url, "claims", json!({"resource": "a", "claimant": "Anna"})).await;
    let granted = first.next().await.unwrap();
    drop(first);
    post(&url, "claims", json!({"resource": "b", "claimant": "Anna"})).await;

    // From the beginning, from the middle, and from the end: nothing is missing and nothing comes twice.
    let mut again = Stream::with(&url, "?state=true", &[("last-event-id", &begin)]).await;
    assert_eq!(again.kinds(2).await, pairs(&[("granted", "a"), ("granted", "b")]));
    let mut rest = Stream::open(&url, &format!("?lastEventId={}", granted.id)).await;
    assert_eq!(rest.kinds(1).await, pairs(&[("granted", "b")]));

    // A place of another life.
    let mut other = Stream::open(&url, "?lastEventId=1.1&name=b").await;
    assert_eq!(other.next().await.unwrap().kind, "gap");
    let state = other.next().await.unwrap();
    assert_eq!(state.kind, "state");
    let names: Vec<_> =
        state.data["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!((names, &state.data["last"]), (vec![&json!("b")], &json!(true)));
    // The state has a place behind which the reader goes on.
    let mut behind = Stream::open(&url, &format!("?lastEventId={}", state.id)).await;
    post(&url, "claims", json!({"resource": "c", "claimant": "Anna"})).await;
    assert_eq!(behind.kinds(1).await, pairs(&[("granted", "c")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_streams_and_the_next_one_gives_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let store = ["--store", "sqlite:a.db"];
    let start = || {
        let usual = ["serve", "--listen", "127.0.0.1:0"];
        Running::of(lockhouse(folder.path(), &[&usual[..], &store].concat()))
    };
    let server = start();
    let mut stream = Stream::open(&url(&server), "").await;
    post(&url(&server), "claims", json!({"resource": "a", "claimant": "Anna"})).await;
    let last = stream.next().await.unwrap();
    let (code, _) = server.terminate();
    assert_eq!(code, Some(0));
    assert!(stream.next().await.is_none());

    let server = start();
    let mut stream = Stream::open(&url(&server), &format!("?lastEventId={}", last.id)).await;
    assert_eq!(stream.next().await.unwrap().kind, "gap");
    assert_eq!(stream.next().await.unwrap().data["entries"][0]["name"], "a");
}

fn new_key(folder: &Path, arguments: &[&str]) -> String {
    let output = lockhouse(folder, &[&["key", "new"], arguments].concat()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let key = stderr.trim().rsplit_once("LOCKHOUSE_KEY=").unwrap().1.to_owned();
    traces::secret(Kind::ApiKey, &key);
    let file = folder.join("f.toml");
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::write(file, before + &String::from_utf8(output.stdout).unwrap()).unwrap();
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_of_its_tenant_and_ends_when_its_credential_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let permissions = ["--permission", "query", "--permission", "claim"];
    let ours = new_key(folder.path(), &[&["--id", "ours"], &permissions[..]].concat());
    let before = fs::read_to_string(folder.path().join("f.toml")).unwrap();
    let theirs =
        new_key(folder.path(), &[&["--id", "theirs", "--tenant", "acme"], &permissions[..]].concat());
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let url = url(&server);
    let claim = async |key: &str, resource: &str| {
        let body = json!({"resource": resource, "claimant": "Anna"});
        let request = Client::new().post(format!("{url}/v1/buckets/default/claims")).json_of(&body);
        assert_eq!(request.header("lockhouse-key", key).send().await.unwrap().status(), 201);
    };
    let mut here = Stream::with(&url, "", &[("lockhouse-key", &ours)]).await;
    let mut there = Stream::with(&url, "", &[("lockhouse-key", &theirs)]).await;
    there.first_id().await;
    claim(&ours, "ours").await;
    claim(&theirs, "theirs").await;
    assert_eq!(here.kinds(1).await, pairs(&[("granted", "ours")]));
    assert_eq!(there.kinds(1).await, pairs(&[("granted", "theirs")]));

    fs::write(folder.path().join("f.toml"), before).unwrap();
    server.hang_up();
    assert!(there.next().await.is_none(), "its key is gone");
    claim(&ours, "more").await;
    assert_eq!(here.kinds(1).await, pairs(&[("granted", "more")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_where_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.toml"), "[history]\nenabled = false\n").unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let url = url(&server);
    let refused = Client::new().get(format!("{url}/v1/buckets/default/events")).send().await.unwrap();
    assert_eq!(refused.status(), 404);
    assert!(refused.text().await.unwrap().contains("history.enabled"));
    hold(folder.path(), &url, "report");
    let history = Client::new().get(format!("{url}/v1/buckets/default/history")).send().await.unwrap();
    let history: Value = serde_json::from_str(&history.text().await.unwrap()).unwrap();
    assert_eq!(history, json!({"entries": [], "next": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_has_a_bounded_number_of_streams() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.toml"), "[limits]\nconnections_per_address = 2000\n").unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let client = Client::new();
    let open =
        async || client.get(format!("{}/v1/buckets/default/events", url(&server))).send().await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..512 {
        streams.push(open().await.error_for_status().unwrap());
    }
    let refused = open().await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    let refused: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(refused["code"], "quota_exceeded");
    streams.pop();
    // The place is free once the server has seen the end.
    let begun = Instant::now();
    while open().await.status() != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.toml"), "[limits]\nwrite_timeout = \"500ms\"\n").unwrap();
    let server = Running::start(folder.path(), &["--config", "f.toml"]);
    let url = url(&server);
    // Little waits in the system for a reader that has little space for it.
    let reader = TcpSocket::new_v4().unwrap();
    reader.set_recv_buffer_size(4096).unwrap();
    let mut reader = reader.connect(server.address).await.unwrap().into_std().unwrap();
    reader.set_nonblocking(false).unwrap();
    write!(reader, "GET /v1/buckets/default/events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let cut_off = async || {
        let metrics = Exposition::of(&format!("{url}/metrics")).await;
        metrics.value("lockhouse_limit_refusals_total{reason=\"write_timeout\"}")
    };
    assert_eq!(cut_off().await, 0.0);
    let name = "n".repeat(4000);
    let begun = Instant::now();
    while cut_off().await == 0.0 {
        for _ in 0..50 {
            post(&url, "claims", json!({"resource": name, "claimant": "Anna"})).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is cut off");
    }
    // What was sent is still there, and then the end comes: an end in the middle, or a reset.
    reader.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = Vec::new();
    match reader.read_to_end(&mut rest) {
        Ok(_) => assert!(!rest.ends_with(b"0\r\n\r\n"), "the stream has ended in order"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}
