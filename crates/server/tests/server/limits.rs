//! What is refused, and who else notices.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::SinkExt;
use lockhouse_server::{Config, LimitSettings, Refused};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Client, PATIENCE, TestServer, config};

async fn server(limits: LimitSettings) -> TestServer {
    TestServer::with(Config { limits, ..config(60_000) }).await
}

/// Calls once over a connection of its own, from that address.
async fn call_from(server: &TestServer, from: [u8; 4], request: &str) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 64 << 10];
    let length = timeout(PATIENCE, stream.read(&mut answer)).await.expect("no answer").unwrap();
    (stream, String::from_utf8_lossy(&answer[..length]).into_owned())
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The problem that an answer tells of, and after how many seconds it says to come again.
fn problem(answer: &str) -> (u16, Value, Option<u64>) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let header =
        head.to_lowercase().lines().find_map(|line| line.strip_prefix("retry-after: ")?.parse().ok());
    (status, serde_json::from_str(body).unwrap_or(Value::Null), header)
}

fn claim(bucket: &str, resource: &str) -> String {
    let body = json!({"resource": resource, "claimant": "A"}).to_string();
    format!(
        "POST /v1/buckets/{bucket}/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// How a session that is refused right away is closed.
async fn refused_session(server: &TestServer, query: &str) -> (u16, String) {
    let mut client = Client::open(server.address, query).await;
    client.send(json!({"type": "hello"})).await;
    let close = client.next_or_close().await.unwrap_err().unwrap();
    (close.code.into(), close.reason.to_string())
}

#[tokio::test]
async fn connections_from_one_address_leave_room_for_another() {
    let limits = LimitSettings { connections: 16, connections_per_address: 10, ..LimitSettings::default() };
    let server = server(limits).await;
    let mut open = Vec::new();
    let refused = loop {
        let (stream, answer) = call_from(&server, [127, 0, 0, 1], HEALTH).await;
        if !answer.starts_with("HTTP/1.1 200") {
            break answer;
        }
        open.push(stream);
    };
    assert_eq!(open.len(), 10);
    let (status, body, retry_after) = problem(&refused);
    assert_eq!((status, &body["code"], retry_after), (503, &json!("overloaded"), Some(1)));
    assert!(body["detail"].as_str().unwrap().ends_with("limits.connections_per_address"), "{body}");
    assert_eq!(server.server.refused(Refused::ConnectionsPerAddress), 1);

    // Others have room, though fewer than it had.
    let mut others = Vec::new();
    while let (stream, answer) = call_from(&server, [127, 0, 0, 2], HEALTH).await
        && answer.starts_with("HTTP/1.1 200")
    {
        others.push(stream);
    }
    assert!((3..=6).contains(&others.len()), "{}", others.len());
    drop(open);
    let start = Instant::now();
    while server.server.connection_count() > others.len() {
        assert!(start.elapsed() < PATIENCE, "a connection that is closed keeps its place");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(call_from(&server, [127, 0, 0, 1], HEALTH).await.1.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn websockets_and_sessions_of_one_tenant_leave_room_for_another() {
    let limits =
        LimitSettings { connections_per_tenant: 2, sessions_per_tenant: 3, ..LimitSettings::default() };
    let server = server(limits).await;
    let first = Client::hello(server.address, "?partition=a").await;
    let second = Client::hello(server.address, "?partition=a").await;
    let (code, reason) = refused_session(&server, "?partition=a").await;
    assert_eq!((code, &*reason), (1013, "connections_per_tenant"));
    assert_eq!(server.server.refused(Refused::ConnectionsPerTenant), 1);
    drop(Client::hello(server.address, "?partition=b").await);

    // Their connections go, their sessions wait for a resume.
    drop((first, second));
    let third = loop {
        if server.server.connection_count() == 0 {
            break Client::hello(server.address, "?partition=a").await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let (code, reason) = refused_session(&server, "?partition=a").await;
    assert_eq!((code, &*reason), (1013, "sessions_per_tenant"));
    assert_eq!(server.server.refused(Refused::SessionsPerTenant), 1);
    drop((third, Client::hello(server.address, "?partition=b").await));
}

#[tokio::test]
async fn a_tenant_has_so_many_buckets_and_others_have_theirs() {
    let server = server(LimitSettings { buckets_per_tenant: 2, ..LimitSettings::default() }).await;
    let (_one, _two) =
        (Client::hello(server.address, "?bucket=1").await, Client::hello(server.address, "?bucket=2").await);
    assert_eq!(refused_session(&server, "?bucket=3").await, (1013, "buckets_per_tenant".to_owned()));
    let (status, body, retry_after) = problem(&call_from(&server, [127, 0, 0, 1], &claim("3", "r")).await.1);
    assert_eq!((status, &body["code"], &body["field"]), (429, &json!("quota_exceeded"), &json!("bucket")));
    assert!(retry_after.is_some());
    assert_eq!(server.server.refused(Refused::BucketsPerTenant), 2);
    // Those that are in use can be used by everybody.
    assert_eq!(problem(&call_from(&server, [127, 0, 0, 1], &claim("2", "r")).await.1).0, 201);
    drop(Client::hello(server.address, "?bucket=2").await);
    drop(Client::hello(server.address, "?bucket=3&partition=b").await);
}

#[tokio::test]
async fn a_bucket_has_so_many_requests_in_all_its_sessions() {
    let server = server(LimitSettings { requests_per_bucket: 2, ..LimitSettings::default() }).await;
    let (mut one, mut other) = (server.client().await, server.client().await);
    one.join(1).await;
    one.request(1, 1, "n").await;
    one.granted(1).await;
    other.join(1).await;
    other.request(1, 1, "m").await;
    other.granted(1).await;
    other.request(2, 1, "n").await;
    let error = other.next().await;
    assert_eq!(error["rule"], "one of at most 2 of a bucket at once", "{error}");
    assert_eq!(server.server.refused(Refused::Frame), 1);
    let (status, body, _) = problem(&call_from(&server, [127, 0, 0, 1], &claim("default", "r")).await.1);
    assert_eq!((status, &body["code"]), (429, &json!("quota_exceeded")), "{body}");
    assert_eq!(problem(&call_from(&server, [127, 0, 0, 1], &claim("other", "r")).await.1).0, 201);
}

#[tokio::test]
async fn calls_over_the_rate_are_told_when_to_come_again() {
    let server = server(LimitSettings { tenant_rate: 2, ..LimitSettings::default() }).await;
    let mut refused = 0;
    for resource in 0..6 {
        let answer = call_from(&server, [127, 0, 0, 1], &claim("default", &resource.to_string())).await.1;
        let (status, body, retry_after) = problem(&answer);
        if status == 201 {
            continue;
        }
        assert_eq!((status, &body["code"], retry_after), (429, &json!("rate_limited"), Some(1)), "{body}");
        let wait = body["retryAfterMs"].as_u64().unwrap();
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let again = call_from(&server, [127, 0, 0, 1], &claim("default", &resource.to_string())).await.1;
        assert_eq!(problem(&again).0, 201, "it came when it was told to: {again}");
        refused += 1;
    }
    assert!((2..=4).contains(&refused), "{refused}");
    assert_eq!(server.server.refused(Refused::TenantRate), refused);
}

/// Asks for a name that is free, again and again, without waiting for the answers.
async fn flood(client: &mut Client, first: u64, count: u64) {
    for id in first..first + count {
        let frame = json!({"type": "query", "id": id, "name": "n"});
        client.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }
    client.socket.flush().await.unwrap();
}

async fn answers(client: &mut Client, first: u64, count: u64) {
    for id in first..first + count {
        assert_eq!(client.next().await["id"], id);
    }
}

#[tokio::test]
async fn a_session_that_sends_too_fast_is_read_more_slowly_and_loses_nothing() {
    let limits = LimitSettings { session_rate: 100, ..LimitSettings::default() };
    let server = TestServer::with(Config { limits, ..config(1_000) }).await;
    let mut client = server.client().await;
    let start = Instant::now();
    flood(&mut client, 1, 350).await;
    answers(&mut client, 1, 350).await;
    // A second of it at once, the rest at the rate; and longer than the lease, which the pongs renew meanwhile.
    assert!(start.elapsed() >= Duration::from_millis(2_300), "{:?}", start.elapsed());
    let mut other = server.client().await;
    flood(&mut other, 1, 50).await;
    answers(&mut other, 1, 50).await;
}

#[tokio::test]
async fn a_tenant_that_does_too_much_slows_down_itself_and_nobody_else() {
    let limits = LimitSettings { tenant_rate: 100, ..LimitSettings::default() };
    let server = TestServer::with(Config { limits, ..config(1_000) }).await;
    let hello = |query| Client::hello(server.address, query);
    let (mut one, mut two) = (hello("?partition=a").await, hello("?partition=a").await);
    let (mut idle, mut other) = (hello("?partition=a").await, hello("?partition=b").await);
    idle.join(1).await;
    idle.request(1, 1, "kept").await;
    idle.granted(1).await;
    let start = Instant::now();
    let loud = tokio::spawn(async move {
        flood(&mut one, 1, 200).await;
        flood(&mut two, 1, 200).await;
        tokio::join!(answers(&mut one, 1, 200), answers(&mut two, 1, 200));
        start.elapsed()
    });
    flood(&mut other, 1, 90).await;
    answers(&mut other, 1, 90).await;
    assert!(!loud.is_finished(), "the other has had to wait for it");
    // Who does little in a tenant that does much keeps what it has: its pongs are read.
    let kept = tokio::spawn(async move {
        while start.elapsed() < Duration::from_secs(3) {
            _ = timeout(Duration::from_millis(50), idle.next_or_close()).await;
        }
        idle
    });
    let took = loud.await.unwrap();
    assert!(took >= Duration::from_millis(2_700), "{took:?}");
    let mut idle = kept.await.unwrap();
    assert_eq!(idle.query(2).await.0, ["kept"]);
}

#[tokio::test]
async fn other_bounds_are_taken_over_while_it_runs() {
    let server = server(LimitSettings::default()).await;
    let _one = Client::hello(server.address, "?bucket=1").await;
    let wrong = LimitSettings { buckets_per_tenant: 0, ..LimitSettings::default() };
    let error = server.server.reload_limits(wrong).unwrap_err();
    assert_eq!(error.to_string(), "limits.buckets_per_tenant is 0, but must be from 1 to 1000000");
    Client::hello(server.address, "?bucket=2").await.close(1000).await;
    server.server.reload_limits(LimitSettings { buckets_per_tenant: 1, ..LimitSettings::default() }).unwrap();
    let start = Instant::now();
    // The second one is in use until its session has ended.
    while server.server.house().buckets().len() > 1 {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(refused_session(&server, "?bucket=2").await.1, "buckets_per_tenant");
}
