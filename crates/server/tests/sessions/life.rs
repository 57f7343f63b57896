//! From start to stop: health, readiness, draining.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::sessions::support::{Client, TestServer, config};

/// Status, headers and body of a GET.
async fn get(server: &TestServer, path: &str, host: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn health_reports_version_and_epoch() {
    let server = TestServer::start().await;
    let (status, _, body) = get(&server, "/healthz", "localhost").await;
    let (version, epoch) = (env!("CARGO_PKG_VERSION"), &server.client().await.welcome["epoch"]);
    assert_eq!(status, 200);
    assert_eq!(body, format!(r#"{{"status":"ok","version":"{version}","epoch":{epoch}}}"#));
}

#[tokio::test]
async fn the_page_comes_with_security_headers_and_only_under_names_of_this_machine() {
    let server = TestServer::start().await;
    let (status, head, page) = get(&server, "/dashboard/", "127.0.0.1").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/html") && page.contains("<!doctype html>"));
    assert!(head.contains("cache-control: no-cache") && head.contains("etag: \""), "{head}");
    for path in ["/dashboard", "/dashboard/locks?prefix=a", "/dashboard/a/b"] {
        assert_eq!(get(&server, path, "127.0.0.1").await.2, page, "{path}");
    }
    let script = page.split('"').find(|part| part.ends_with(".js")).unwrap();
    let (status, head, body) = get(&server, script, "127.0.0.1").await;
    assert!(status == 200 && !body.is_empty(), "{script}");
    assert!(head.contains("cache-control: public, max-age=31536000, immutable"), "{head}");
    assert_eq!(get(&server, "/dashboard/assets/of-before.js", "127.0.0.1").await.0, 404);
    for path in ["/", "/dashboard/", script, "/dashboard/assets/of-before.js", "/lockhouse.global.js"] {
        let (_, head, _) = get(&server, path, "127.0.0.1").await;
        let safe =
            ["default-src 'none'", "frame-ancestors 'none'", "nosniff", "referrer-policy: no-referrer"];
        assert!(safe.iter().all(|part| head.contains(part)), "{path}: {head}");
        assert!(!head.contains("unsafe"), "{path}: {head}");
    }
    for path in ["/", "/dashboard/", script, "/healthz", "/readyz", "/v1/ws"] {
        assert_eq!(get(&server, path, "evil.example").await.0, 403, "{path}");
    }
    assert_eq!(get(&server, "/v1/ws", "localhost").await.0, 426);
}

#[tokio::test]
async fn a_newcomer_is_led_to_two_tabs_in_the_bucket_of_the_address() {
    let server = TestServer::start().await;
    for (path, location) in [("/", "/dashboard/try"), ("/?bucket=a%2Fb", "/dashboard/try?bucket=a%2Fb")] {
        let (status, head, _) = get(&server, path, "localhost").await;
        let location = format!("location: {}\r\n", location.to_lowercase());
        assert!(status == 307 && head.contains(&location), "{path}: {head}");
    }
}

#[tokio::test]
async fn an_unknown_path_is_answered_with_the_known_ones() {
    let server = TestServer::start().await;
    let (status, head, body) = get(&server, "/nothing", "localhost").await;
    assert_eq!(status, 404);
    assert!(head.contains("content-type: text/plain"), "{head}");
    assert_eq!(body, "nothing is here; the WebSocket endpoint is /v1/ws, the dashboard is at /dashboard\n");
    assert_eq!(get(&server, "/nothing", "evil.example").await.0, 403);
}

#[tokio::test]
async fn a_stopping_server_grants_nothing_and_ends_once_nothing_is_held() {
    let mut server =
        TestServer::with(lockhouse_server::Config { drain: Duration::from_secs(60), ..config(10_000) }).await;
    let (mut holder, mut other) = (server.client().await, server.client().await);
    holder.join(1).await;
    other.join(1).await;
    holder.request(1, 1, "n").await;
    holder.granted(1).await;
    other.request(1, 1, "n").await;
    other.query(2).await;
    assert_eq!(get(&server, "/readyz", "localhost").await.0, 200);
    server.stop();
    for client in [&mut holder, &mut other] {
        assert_eq!(client.next().await, json!({"type": "closing", "reason": "shutdown"}));
    }
    assert_eq!(get(&server, "/readyz", "localhost").await.0, 503);
    other.call(json!({"type": "request", "id": 3, "agent": 1, "name": "free", "ifAvailable": true})).await;
    assert_eq!(other.next().await["type"], "refused");
    other.call(json!({"type": "request", "id": 4, "agent": 1, "name": "free", "steal": true})).await;
    assert_eq!(other.next().await["code"], "closing");
    let mut late = Client::open(server.address, "").await;
    late.send(json!({"type": "hello"})).await;
    assert_eq!(late.closed().await, 1012);
    holder.release(1).await;
    // The next in the queue gets nothing. The last frame says when to come again, after the turns of others.
    assert_eq!(other.next().await["type"], "closing");
    assert_eq!(other.next_or_close().await.unwrap_err().unwrap().code, 1012.into());
    assert_eq!(holder.closed().await, 1012);
    tokio::time::timeout(Duration::from_secs(10), server.task).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_draining_server_lets_sessions_be_resumed_and_none_be_begun() {
    let mut server =
        TestServer::with(lockhouse_server::Config { drain: Duration::from_secs(60), ..config(10_000) }).await;
    let mut holder = server.client().await;
    holder.join(1).await;
    holder.request(1, 1, "n").await;
    holder.granted(1).await;
    server.stop();
    assert_eq!(holder.next().await["type"], "closing");
    let mut late = Client::open(server.address, "").await;
    late.send(json!({"type": "hello"})).await;
    assert_eq!(late.next_or_close().await.unwrap_err().unwrap().code, 1012.into());
    // Over HTTP operators see who is still waited for.
    let (status, _, body) = get(&server, "/v1/buckets/default/query", "localhost").await;
    assert!(status == 200 && body.contains("\"clientId\":\"agent 1\""), "{body}");
    let mut again = Client::resume(server.address, &holder).await;
    assert_eq!(again.welcome["resumed"], true);
    assert_eq!(again.next().await, json!({"type": "closing", "reason": "shutdown"}));
    again.release(1).await;
    assert_eq!(again.closed().await, 1012);
}

#[tokio::test]
async fn a_session_that_is_begun_while_the_server_drains_sees_everything_and_is_granted_nothing() {
    let mut server =
        TestServer::with(lockhouse_server::Config { drain: Duration::from_secs(60), ..config(10_000) }).await;
    let mut holder = server.client().await;
    holder.join(1).await;
    holder.request(1, 1, "n").await;
    holder.granted(1).await;
    server.stop();
    assert_eq!(holder.next().await["type"], "closing");
    let mut looking = Client::open(server.address, "").await;
    looking.send(json!({"type": "hello", "whileDraining": true})).await;
    assert_eq!(looking.next().await["type"], "welcome");
    assert_eq!(looking.next().await, json!({"type": "closing", "reason": "shutdown"}));
    looking.join(1).await;
    looking.request(1, 1, "free").await;
    assert_eq!(looking.query(2).await, (vec!["n".to_owned()], vec!["free".to_owned()]));
    looking.call(json!({"type": "request", "id": 3, "agent": 1, "name": "other", "ifAvailable": true})).await;
    assert_eq!(looking.next().await["type"], "refused");
    looking.call(json!({"type": "request", "id": 4, "agent": 1, "name": "n", "steal": true})).await;
    assert_eq!(looking.next().await["code"], "closing");
    holder.release(1).await;
    // The end of the last lock ends the server, though a request waits for a name that is free.
    assert_eq!(looking.closed().await, 1012);
}

#[tokio::test]
async fn a_stopping_server_waits_no_longer_than_its_drain_time() {
    let mut server = TestServer::with(config(10_000)).await;
    let mut holder = server.client().await;
    holder.join(1).await;
    holder.request(1, 1, "n").await;
    holder.granted(1).await;
    let begin = Instant::now();
    server.stop();
    assert_eq!(holder.closed().await, 1012);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    tokio::time::timeout(Duration::from_secs(10), server.task).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_after_ten_seconds() {
    let server = TestServer::start().await;
    let begin = Instant::now();
    let mut silent = Client::open(server.address, "").await;
    assert_eq!(silent.next().await["code"], "bad_frame");
    assert_eq!(silent.closed().await, 4400);
    assert!(begin.elapsed() >= Duration::from_secs(10) && begin.elapsed() < Duration::from_secs(13));
}
