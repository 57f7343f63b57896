//! Sessions over a rate, which send as much as the protocol lets them: they lose nothing.

use std::time::Duration;

use futures_util::SinkExt;
use lockhouse_server::{Config, LimitSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::sessions::support::{Client, TestServer, config};

/// What a frame under way counts for beyond its length.
const WEIGHT: usize = 96;

async fn server(session_rate: u32, lease_ms: u64) -> TestServer {
    let limits = LimitSettings { session_rate, ..LimitSettings::default() };
    TestServer::with(Config { limits, ..config(lease_ms) }).await
}

async fn holder(server: &TestServer, name: &str) -> Client {
    let mut client = server.client().await;
    client.join(1).await;
    client.request(1, 1, name).await;
    client.granted(1).await;
    client
}

/// Frames that fill the window of the client to the last one that fits.
fn window(client: &mut Client, frame: impl Fn(u64) -> Value) -> Vec<String> {
    let mut left = client.welcome["limits"]["windowBytes"].as_u64().unwrap() as usize;
    let mut frames = Vec::new();
    for id in 2.. {
        let mut frame = frame(id);
        if frame["type"] != "query" {
            client.seq += 1;
            frame["seq"] = json!(client.seq);
        }
        let text = frame.to_string();
        match left.checked_sub(text.len() + WEIGHT) {
            Some(rest) => left = rest,
            None => {
                client.seq -= u64::from(frame["type"] != "query");
                break;
            }
        }
        frames.push(text);
    }
    frames
}

/// Sends the frames, so many in a message.
async fn send(client: &mut Client, frames: &[String], in_message: usize) {
    for frames in frames.chunks(in_message) {
        let text = if in_message == 1 { frames[0].clone() } else { format!("[{}]", frames.join(",")) };
        client.socket.feed(Message::text(text)).await.unwrap();
    }
    client.socket.flush().await.unwrap();
}

#[tokio::test]
async fn a_full_window_of_a_paced_session_costs_it_nothing() {
    let server = server(200, 1_000).await;
    let abort = |id: u64| json!({"type": "abort", "id": id + 1_000_000});
    let metadata = "m".repeat(1_000);
    let request =
        |id: u64| json!({"type": "request", "id": id, "agent": 1, "name": "held", "metadata": metadata});
    let query = |id: u64| json!({"type": "query", "id": id, "name": "n"});
    let mut sessions = tokio::task::JoinSet::new();
    for in_message in [1, 7, 700] {
        for (number, frame) in [&abort as &dyn Fn(u64) -> Value, &request, &query].into_iter().enumerate() {
            let held = format!("held {in_message} {number}");
            let mut client = holder(&server, &held).await;
            let frames = window(&mut client, frame);
            let in_message = in_message.min(frames.len() / 4);
            sessions.spawn(async move {
                send(&mut client, &frames, in_message).await;
                // Pings are answered until all of that is carried out, and then this, several leases later.
                client.send(json!({"type": "query", "id": 900_000, "name": held})).await;
                let snapshot = loop {
                    let frame = client.next().await;
                    if frame["id"] == 900_000 {
                        break frame;
                    }
                };
                assert_eq!(snapshot["held"].as_array().unwrap().len(), 1, "{snapshot}");
            });
        }
    }
    while let Some(session) = sessions.join_next().await {
        session.unwrap();
    }
}

#[tokio::test]
async fn a_few_long_frames_are_acknowledged_soon() {
    let server = TestServer::with(config(60_000)).await;
    let mut client = holder(&server, "held").await;
    let metadata = "m".repeat(1_000);
    let long = |id: u64| json!({"type": "request", "id": id, "agent": 1, "name": "n".repeat(4_000), "metadata": metadata});
    let frames = window(&mut client, long);
    assert!(frames.len() < 64, "{}", frames.len());
    send(&mut client, &frames, 1).await;
    // No ping has to come before that, which would acknowledge them, too.
    let ack = loop {
        let frame = client.next_of_any_type().await;
        assert_ne!(frame["type"], "ping", "{frame}");
        if frame["type"] == "ack" {
            break frame;
        }
    };
    assert!(ack["ack"].as_u64().unwrap() > 10, "{ack}");
}

#[tokio::test]
async fn a_frame_that_costs_more_than_the_lease_lasts_does_not_end_it() {
    let server = server(12, 2_000).await;
    let mut client = holder(&server, "held").await;
    // Five seconds of the rate.
    let padding = "x".repeat(64_000);
    client.call(json!({"type": "abort", "id": 7, "padding": padding})).await;
    assert_eq!(client.query(2).await.0, ["held"]);
}

/// The session of the only client that waits for something, and the bytes of all that count.
async fn seen(server: &TestServer) -> (Value, u64) {
    let get = async |path: &str| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let sessions = get("/v1/buckets/default/sessions").await;
    let (_, body) = sessions.split_once("\r\n\r\n").unwrap();
    let mut sessions: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{sessions}"));
    let metrics = get("/metrics").await;
    let unread = metrics.lines().find_map(|line| line.strip_prefix("lockhouse_unread_bytes "));
    let unread = unread.unwrap_or_else(|| panic!("{metrics}")).parse::<f64>().unwrap() as u64;
    (sessions["sessions"][1].take(), unread)
}

#[tokio::test]
async fn what_a_paced_session_has_sent_counts_and_its_acknowledgements_come_at_once() {
    const SHARERS: u64 = 200;
    let server = server(100, 20_000).await;
    let (mut other, mut client) = (holder(&server, "held").await, server.client().await);
    client.join(1).await;
    for id in 1..=SHARERS {
        client.request(id, 1, "held").await;
    }
    let abort = |id: u64| json!({"type": "abort", "id": id + 1_000_000});
    let frames = window(&mut client, abort);
    send(&mut client, &frames, 1).await;
    // Nearly all of the window waits for its turn.
    while seen(&server).await.1 < 150_000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The client gets its locks one after another, and acknowledges them behind what waits.
    other.release(1).await;
    client.granted(1).await;
    client.send(json!({"type": "ack", "ack": 1})).await;
    loop {
        let (session, unread) = seen(&server).await;
        assert!(unread > 100_000, "the acknowledgement waits for all before it: {unread}");
        if session["queuedBytes"] == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(client);
    while seen(&server).await.1 > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
