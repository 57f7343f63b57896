//! Peers that are slow on purpose, or silent: half a head, a byte now and then, a body that never comes,
//! nothing read.

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use lockhouse_server::{Config, LimitSettings, Refused};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::sessions::support::{Client, PATIENCE, TestServer, config};

/// How long the server of these tests waits for anything.
const LIMIT: Duration = Duration::from_millis(400);

/// Far less than what a peer that sends a byte in each of these needs for anything whole.
const TRICKLE: Duration = Duration::from_millis(50);

async fn impatient() -> TestServer {
    let limits = LimitSettings {
        header_timeout: LIMIT,
        idle_timeout: LIMIT,
        body_timeout: LIMIT,
        hello_timeout: LIMIT,
        write_timeout: LIMIT,
        ..LimitSettings::default()
    };
    TestServer::with(Config { limits, ..config(60_000) }).await
}

/// Sends `head`, and then a byte now and then until the server has closed; what it said.
async fn trickle(server: &TestServer, head: &str) -> String {
    let start = Instant::now();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let mut said = Vec::new();
    let mut beat = interval(TRICKLE);
    let hears = async {
        // A reset is an end, too.
        _ = reader.read_to_end(&mut said).await;
    };
    let sends = async {
        loop {
            beat.tick().await;
            if writer.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = hears => {}
        () = sends => {}
        () = tokio::time::sleep(PATIENCE) => panic!("it is still connected"),
    }
    assert!(start.elapsed() >= LIMIT, "cut off too early, after {:?}", start.elapsed());
    String::from_utf8_lossy(&said).into_owned()
}

/// Sends `head` and nothing more; what the server says until it closes.
async fn wait_for_the_end(server: &TestServer, head: &str) -> String {
    let start = Instant::now();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    _ = timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("it is still connected");
    assert!(start.elapsed() >= LIMIT, "cut off too early, after {:?}", start.elapsed());
    String::from_utf8_lossy(&said).into_owned()
}

/// Every connection is given back.
async fn no_client_is_left(server: &TestServer) {
    let start = Instant::now();
    while server.server.connection_count() > 0 {
        assert!(start.elapsed() < PATIENCE, "{} connections are left", server.server.connection_count());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn half_a_head_is_cut_off_however_it_comes() {
    let server = impatient().await;
    let half = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    assert_eq!(wait_for_the_end(&server, half).await, "");
    assert_eq!(trickle(&server, half).await, "");
    assert_eq!(server.server.refused(Refused::HeaderTimeout), 2);
    no_client_is_left(&server).await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let server = impatient().await;
    assert_eq!(wait_for_the_end(&server, "").await, "");
    let idle = wait_for_the_end(&server, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(idle.starts_with("HTTP/1.1 200 OK"), "{idle}");
    assert_eq!(server.server.refused(Refused::IdleTimeout), 2);
    assert_eq!(server.server.refused(Refused::HeaderTimeout), 0);
    no_client_is_left(&server).await;
}

#[tokio::test]
async fn a_kept_connection_may_be_idle_for_longer_than_a_head_may_take() {
    let limits = LimitSettings { header_timeout: LIMIT, ..LimitSettings::default() };
    let server = TestServer::with(Config { limits, ..config(60_000) }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let ask = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for _ in 0..2 {
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut said = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut said)).await.expect("it is answered").unwrap();
        assert_eq!(&said, b"HTTP/1.1 200");
        // The rest of the answer, and then nothing for longer than a head may take.
        let mut rest = vec![0; 4 << 10];
        while let Ok(read) = timeout(2 * LIMIT, stream.read(&mut rest)).await {
            assert_ne!(read.unwrap(), 0, "it is closed");
        }
    }
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("half a head is waited for").unwrap();
    assert_eq!(server.server.refused(Refused::HeaderTimeout), 1);
}

#[tokio::test]
async fn what_is_answered_is_not_idle() {
    // Longer than a busy machine may let the callers of this test wait for the processor.
    let limit = Duration::from_millis(1500);
    let limits = LimitSettings { header_timeout: limit, ..LimitSettings::default() };
    let server = TestServer::with(Config { limits, ..config(60_000) }).await;
    let body = r#"{"resource": "n", "claimant": "Ada"}"#;
    let head = format!(
        "POST /v1/buckets/default/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    // The body is waited for, by a bound of its own.
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(head.as_bytes()).await.unwrap();
    // Far more is answered than sockets keep, and nothing of it is read.
    let calls = 2000;
    let mut deaf = TcpStream::connect(server.address).await.unwrap();
    let call = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(calls - 1)
        + "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (mut answers, mut asks) = deaf.split();
    let asks = async { asks.write_all(call.as_bytes()).await.unwrap() };
    let hears = async {
        tokio::time::sleep(2 * limit + limit / 2).await;
        slow.write_all(body.as_bytes()).await.unwrap();
        let mut said = [0; 12];
        timeout(PATIENCE, slow.read_exact(&mut said)).await.expect("it is answered").unwrap();
        assert_eq!(&said, b"HTTP/1.1 201");
        let mut said = Vec::new();
        timeout(PATIENCE, answers.read_to_end(&mut said)).await.expect("it is answered").unwrap();
        assert_eq!(String::from_utf8_lossy(&said).matches("HTTP/1.1 200 OK").count(), calls);
    };
    tokio::join!(asks, hears);
    assert_eq!(server.server.refused(Refused::IdleTimeout), 0);
    assert_eq!(server.server.refused(Refused::HeaderTimeout), 0);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_with_408() {
    let server = impatient().await;
    let head = "POST /v1/buckets/default/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 1000\r\n\r\n{";
    for said in [wait_for_the_end(&server, head).await, trickle(&server, head).await] {
        assert!(said.starts_with("HTTP/1.1 408 Request Timeout"), "{said}");
        assert!(said.contains(r#""code":"request_timeout""#), "{said}");
        assert!(said.contains("body must be there within 400ms"), "{said}");
    }
    assert_eq!(server.server.refused(Refused::BodyTimeout), 2);
    no_client_is_left(&server).await;
}

#[tokio::test]
async fn a_websocket_without_a_hello_is_closed() {
    let server = impatient().await;
    let mut silent = Client::open(server.address, "").await;
    let fatal = silent.next().await;
    assert_eq!(fatal["code"], "bad_frame");
    assert_eq!(fatal["rule"], r#""hello" in the first frame, within 400ms"#);
    assert_eq!(silent.closed().await, 4400);

    let mut slow = Client::open(server.address, "").await;
    // The beginning of a long frame, and then one byte after another.
    slow.socket.get_mut().write_all(&[0x81, 0xFE, 0x10, 0x00, 0, 0, 0, 0]).await.unwrap();
    let start = Instant::now();
    let mut beat = interval(TRICKLE);
    while slow.socket.get_mut().write_all(b"{").await.is_ok() {
        beat.tick().await;
        assert!(start.elapsed() < PATIENCE, "it is still connected");
    }
    assert_eq!(server.server.refused(Refused::HelloTimeout), 2);
    no_client_is_left(&server).await;
}

#[tokio::test]
async fn a_caller_that_reads_no_answers_is_cut_off() {
    let server = impatient().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let call = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let start = Instant::now();
    // Far more is answered than sockets keep.
    while timeout(PATIENCE, stream.write_all(call.as_bytes())).await.expect("it is still connected").is_ok() {
        assert!(start.elapsed() < PATIENCE, "it is still connected");
        if server.server.refused(Refused::WriteTimeout) > 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(server.server.refused(Refused::WriteTimeout), 1);
    no_client_is_left(&server).await;
}

#[tokio::test]
async fn a_websocket_that_takes_nothing_is_cut_off_and_its_session_may_be_resumed() {
    let server = impatient().await;
    let mut deaf = server.client().await;
    deaf.join(1).await;
    for id in 1..500 {
        deaf.request(id, 1, &format!("{id}{}", "n".repeat(2000))).await;
        deaf.granted(id).await;
        if id % 50 == 0 {
            deaf.send(json!({"type": "ack", "ack": deaf.received})).await;
        }
    }
    // Answers of a megabyte each, which it asks for and does not read.
    let start = Instant::now();
    let mut id = 1000;
    while server.server.refused(Refused::WriteTimeout) == 0 {
        let query = json!({"type": "query", "id": id, "detail": true}).to_string();
        _ = timeout(TRICKLE, deaf.socket.send(Message::text(query))).await;
        id += 1;
        assert!(start.elapsed() < PATIENCE, "it is still connected");
    }
    no_client_is_left(&server).await;
    assert_eq!(server.server.session_count(), 1, "it has its lease");
    let resumed = Client::resume(server.address, &deaf).await;
    assert_eq!(resumed.welcome["resumed"], true);
}

/// Sends that, and gives the connection and the first bytes of the answer.
async fn begun(server: &TestServer, request: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = vec![0; 4096];
    let count = timeout(PATIENCE, stream.read(&mut said)).await.expect("it is answered").unwrap();
    (stream, String::from_utf8_lossy(&said[..count]).into_owned())
}

#[tokio::test]
async fn the_bodies_under_way_of_one_network_are_bounded() {
    let server = TestServer::start().await;
    let head = |bytes: usize| {
        format!(
            "POST /v1/buckets/default/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {bytes}\r\n\r\n{{"
        )
    };
    // One address has three quarters of all places.
    let mut waiting = Vec::new();
    for _ in 0..192 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head(256 << 10).as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    let start = Instant::now();
    loop {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head(256 << 10).as_bytes()).await.unwrap();
        let mut said = [0; 12];
        // Unless it was one of those that wait.
        if timeout(LIMIT, stream.read_exact(&mut said)).await.is_ok() {
            assert_eq!(&said, b"HTTP/1.1 503");
            break;
        }
        waiting.push(stream);
        assert!(
            waiting.len() <= 192 && start.elapsed() < PATIENCE,
            "{} bodies are waited for",
            waiting.len()
        );
    }
    // Bodies that come with their head, and small ones, are taken nevertheless.
    let whole = r#"{"resource": "n", "claimant": "Ada"}"#;
    let (_, said) = begun(&server, &(head(whole.len()).trim_end_matches('{').to_owned() + whole)).await;
    assert!(said.starts_with("HTTP/1.1 201"), "{said}");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head(whole.len()).as_bytes()).await.unwrap();
    tokio::time::sleep(TRICKLE).await;
    stream.write_all(&whole.as_bytes()[1..]).await.unwrap();
    let mut said = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut said)).await.expect("it is answered").unwrap();
    assert_eq!(&said, b"HTTP/1.1 409");
}

#[tokio::test]
async fn an_unasked_body_is_read_only_in_small_part() {
    let server = TestServer::start().await;
    for path in
        ["GET /healthz", "POST /healthz", "GET /v1/buckets/default/query", "GET /v1/ws", "POST /nowhere"]
    {
        for (bytes, is_refused) in [(4096, false), (4097, true)] {
            let head = format!("{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n");
            let body = if is_refused { String::new() } else { " ".repeat(bytes) };
            let (_, said) = begun(&server, &(head + &body)).await;
            assert_eq!(said.starts_with("HTTP/1.1 413"), is_refused, "{path}: {said}");
        }
    }
}
