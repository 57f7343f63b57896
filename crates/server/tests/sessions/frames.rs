//! Frames that are too large, too many, or of the wrong kind; bounds; and the answers.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;

use crate::sessions::support::{Client, TestServer};

#[tokio::test]
async fn a_frame_of_the_largest_size_passes() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    let frame = |filler: usize| format!(r#"{{"type":"query","id":1,"later":"{}"}}"#, "x".repeat(filler));
    let text = frame(65_536 - frame(0).len());
    assert_eq!(text.len(), 65_536);
    client.send_text(&text).await;
    assert_eq!(client.next().await["type"], "snapshot");
}

#[tokio::test]
async fn a_frame_over_the_bound_is_fatal_whatever_its_size() {
    let server = TestServer::start().await;
    for size in [65_537, 200_000, 8_000_000] {
        let mut client = server.client().await;
        let message = Message::text("x".repeat(size));
        let (mut sink, stream) = client.socket.split();
        // The server need not read all of it.
        let sending = tokio::spawn(async move {
            _ = sink.send(message).await;
            sink
        });
        let mut stream = stream;
        let mut seen = Vec::new();
        while let Some(Ok(message)) = stream.next().await {
            seen.push(message);
        }
        let text =
            seen.iter().find_map(|message| message.to_text().ok().filter(|text| text.contains("fatal")));
        assert!(text.is_some_and(|text| text.contains("too_large")), "{size}: {seen:?}");
        let close = seen.iter().find_map(|message| match message {
            Message::Close(Some(close)) => Some(u16::from(close.code)),
            _ => None,
        });
        assert_eq!(close, Some(1009), "{size}");
        client = server.client().await;
        client.query(1).await;
        drop(sending.await);
    }
}

#[tokio::test]
async fn a_binary_message_is_closed_with_1003() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.socket.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(client.closed().await, 1003);
    let mut silent = Client::open(server.address, "").await;
    silent.socket.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(silent.closed().await, 1003);
}

#[tokio::test]
async fn a_name_over_the_bound_is_refused_with_its_length() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.join(1).await;
    client.request(1, 1, &"n".repeat(4097)).await;
    let error = client.next().await;
    assert_eq!(
        (&error["code"], &error["field"], &error["id"]),
        (&json!("quota_exceeded"), &json!("name"), &json!(1))
    );
    assert_eq!((&error["value"], &error["rule"]), (&json!("4097 units"), &json!("at most 4096 units")));
    client.request(2, 1, &"n".repeat(4096)).await;
    client.granted(2).await;
}

#[tokio::test]
async fn metadata_over_the_bound_is_refused() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.join(1).await;
    client
        .call(json!({"type": "request", "id": 1, "agent": 1, "name": "n", "metadata": "m".repeat(1025)}))
        .await;
    let error = client.next().await;
    assert_eq!((&error["code"], &error["field"]), (&json!("quota_exceeded"), &json!("metadata")));
}

#[tokio::test]
async fn a_session_has_at_most_1024_agents_at_once() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    for agent in 1..=1025 {
        client.join(agent).await;
    }
    let error = client.next().await;
    assert_eq!((&error["code"], &error["field"]), (&json!("quota_exceeded"), &json!("agent")));
    client.call(json!({"type": "leave", "agent": 7})).await;
    client.join(2000).await;
    client.request(1, 2000, "n").await;
    client.granted(1).await;
}

#[tokio::test]
async fn a_connection_has_at_most_16_watches_at_once() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    for id in 1..=16 {
        client.send(json!({"type": "watch", "id": id})).await;
        assert_eq!(client.next().await["id"], id);
    }
    client.send(json!({"type": "watch", "id": 17})).await;
    let error = client.next().await;
    assert_eq!((&error["code"], &error["id"]), (&json!("quota_exceeded"), &json!(17)));
    client.call(json!({"type": "abort", "id": 3})).await;
    client.send(json!({"type": "watch", "id": 18})).await;
    assert_eq!(client.next().await["id"], 18);
}

#[tokio::test]
async fn a_watch_is_silent_while_nothing_changes() {
    let server = TestServer::start().await;
    let (mut watcher, mut other) = (server.client().await, server.client().await);
    watcher.send(json!({"type": "watch", "id": 1, "detail": true})).await;
    watcher.next().await;
    other.join(1).await;
    other.request(1, 1, "n").await;
    let token = other.granted(1).await;
    let snapshot = watcher.next().await;
    assert_eq!(snapshot["held"][0]["fencingToken"].as_u64(), Some(token), "{snapshot}");
    // Heartbeats and queries of others change nothing.
    for id in 2..5 {
        other.query(id).await;
        let quiet = tokio::time::timeout(Duration::from_millis(150), watcher.next()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }
}

/// Asks again and again, without a pause and for more than it reads meanwhile, on two threads that nothing
/// else shares; sends a notice when a text has come that begins so.
fn flood_until(client: Client, beginning: &'static str) -> oneshot::Receiver<()> {
    let stream = client.socket.into_inner();
    let mut stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    let mut sink = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        for id in 1_000_u64.. {
            let text = format!(r#"{{"type":"query","id":{id}}}"#);
            // Masked with zeros.
            let head = [0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
            if sink.write_all(&[&head, text.as_bytes()].concat()).is_err() {
                return;
            }
        }
    });
    let (found, is_found) = oneshot::channel();
    std::thread::spawn(move || {
        let (mut seen, mut chunk) = (String::new(), [0; 4096]);
        while !seen.contains(beginning) {
            seen.drain(..seen.floor_char_boundary(seen.len().saturating_sub(beginning.len())));
            let read @ 1.. = stream.read(&mut chunk).unwrap() else { return };
            seen.push_str(&String::from_utf8_lossy(&chunk[..read]));
            // The pace of a slow link.
            std::thread::sleep(Duration::from_millis(1));
        }
        found.send(()).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    });
    is_found
}

#[tokio::test]
async fn a_watch_receives_changes_though_its_client_never_pauses() {
    let server = TestServer::start().await;
    let (mut watcher, mut other) = (server.client().await, server.client().await);
    other.join(1).await;
    for id in 1..=4 {
        // So that answers are long.
        other.request(id, 1, &format!("{id}{}", "n".repeat(4000))).await;
        other.granted(id).await;
    }
    watcher.send(json!({"type": "watch", "id": 1, "name": "n"})).await;
    watcher.next().await;
    let snapshot = flood_until(watcher, r#"{"type":"snapshot","id":1,"#);
    // By the end of these the server has long been busy with the flood.
    for id in 10..1_000 {
        other.query(id).await;
    }
    other.request(1_000, 1, "n").await;
    other.granted(1_000).await;
    tokio::time::timeout(Duration::from_secs(10), snapshot).await.expect("the watch starves").unwrap();
}

#[tokio::test]
async fn a_long_snapshot_comes_in_several_frames() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.join(1).await;
    for id in 1..=2000 {
        client.request(id, 1, &format!("name {id}")).await;
        client.granted(id).await;
    }
    client.send(json!({"type": "query", "id": 5000, "detail": true})).await;
    let (mut frames, mut held) = (0, 0);
    loop {
        let frame = client.next().await;
        frames += 1;
        held += frame["held"].as_array().unwrap().len();
        if frame["more"] != true {
            break;
        }
    }
    assert_eq!(held, 2000);
    assert!(frames > 1);
}

#[tokio::test]
async fn every_64_frames_are_acknowledged_even_if_nothing_is_answered() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.join(1).await;
    for _ in 2..=64 {
        client.call(json!({"type": "abort", "id": 1})).await;
    }
    let message = client.socket.next().await.unwrap().unwrap();
    assert_eq!(message.to_text().unwrap(), r#"{"type":"ack","ack":64}"#);
}

#[tokio::test]
async fn many_agents_of_one_connection_take_turns_in_order() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    for agent in 1..=200 {
        client.join(agent).await;
        client.request(agent, agent, "n").await;
    }
    let mut last = 0;
    for id in 1..=200 {
        let token = client.granted(id).await;
        assert!(token > last);
        last = token;
        client.release(id).await;
    }
    client.send(json!({"type": "bye"})).await;
    client.closed().await;
    server.is_empty_within(Duration::from_secs(5)).await;
}
