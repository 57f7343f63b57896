//! Readers that do not read, and memory that returns.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{Client, TestServer, config};

#[tokio::test]
async fn a_client_that_acknowledges_nothing_is_dropped_at_the_bound() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.join(1).await;
    for id in 1..=16_385 {
        client.call(json!({"type": "release", "id": id, "reply": true})).await;
        if id % 1000 == 0 {
            // Both sides may otherwise wait for each other to read.
            while client.received + 1000 < id {
                client.next().await;
            }
        }
    }
    loop {
        let frame = client.next().await;
        if frame["type"] == "fatal" {
            assert_eq!(frame["code"], "slow_reader");
            break;
        }
    }
    assert_eq!(client.closed().await, 4429);
    server.is_empty_within(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_and_holds_up_nobody() {
    let server = TestServer::with(config(3_000)).await;
    let mut deaf = server.client().await;
    deaf.join(1).await;
    deaf.request(1, 1, "n").await;
    deaf.granted(1).await;
    for id in 2..2000 {
        deaf.request(id, 1, &format!("{id}{}", "n".repeat(2000))).await;
        deaf.granted(id).await;
        if id % 50 == 0 {
            deaf.send(json!({"type": "ack", "ack": deaf.received})).await;
        }
    }
    let mut waiter = server.client().await;
    waiter.join(1).await;
    waiter.request(1, 1, "n").await;
    // Answers of several megabytes each, which it asks for and does not read.
    let flood = tokio::spawn(async move {
        for id in 3000..6000 {
            if deaf.try_send(json!({"type": "query", "id": id, "detail": true})).await.is_err() {
                break;
            }
        }
        deaf
    });
    waiter.granted(1).await;
    flood.abort();
    waiter.close(1000).await;
    server.is_empty_within(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn the_tables_are_empty_after_every_kind_of_end() {
    let server = TestServer::with(config(1_000)).await;
    for round in 0..30 {
        let mut client = server.client().await;
        client.join(1).await;
        for id in 1..20 {
            client.request(id, 1, &format!("{}", id % 7)).await;
        }
        client.send(json!({"type": "watch", "id": 50})).await;
        match round % 5 {
            0 => client.close(1000).await,
            1 => client.send(json!({"type": "bye"})).await,
            2 => client.send_text("garbage").await,
            3 => client.socket.send_raw().await,
            _ => drop(client),
        }
    }
    server.is_empty_within(Duration::from_secs(5)).await;
    // A bucket that nobody uses is forgotten.
    assert!(server.server.house().buckets().is_empty());
}

trait SendRaw {
    async fn send_raw(&mut self);
}

impl SendRaw for tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<TcpStream>> {
    /// Bytes that are no WebSocket frame.
    async fn send_raw(&mut self) {
        self.get_mut().write_all(&[0xFF; 64]).await.unwrap();
    }
}

#[tokio::test]
async fn bytes_that_are_no_frame_are_answered_by_a_close() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.socket.send_raw().await;
    assert_eq!(client.next().await["code"], "bad_frame");
    assert_eq!(client.closed().await, 4400);
    let mut text = server.client().await;
    // A text frame, masked with zeros, whose content is not UTF-8.
    text.socket.get_mut().write_all(&[0x81, 0x82, 0, 0, 0, 0, 0xFF, 0xFE]).await.unwrap();
    assert_eq!(text.next().await["code"], "bad_frame");
    assert_eq!(text.closed().await, 4400);
}

#[tokio::test]
async fn two_hundred_sessions_pass_one_lock_around_in_order() {
    let server = TestServer::start().await;
    let mut clients = Vec::new();
    for _ in 0..200 {
        let mut client = Client::hello(server.address, "").await;
        client.join(1).await;
        client.request(1, 1, "n").await;
        if clients.is_empty() {
            client.granted(1).await;
        }
        // So that the queue has the order of the list.
        client.query(2).await;
        clients.push(client);
    }
    clients[0].release(1).await;
    for client in &mut clients[1..] {
        client.granted(1).await;
        client.release(1).await;
    }
}
