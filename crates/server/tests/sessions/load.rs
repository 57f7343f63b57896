//! Readers that do not read, and memory that returns.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::sessions::support::{Client, TestServer, config, frames};

#[tokio::test]
async fn a_client_that_acknowledges_nothing_is_dropped_at_the_bound() {
    let server = TestServer::with(config(600_000)).await;
    let mut holder = server.client().await;
    holder.join(1).await;
    for id in 1..=8 {
        // So that a refusal, which names the holders, is long.
        let metadata = "m".repeat(1024);
        holder.call(json!({"type": "request", "id": id, "agent": 1, "name": "n", "mode": "shared", "metadata": metadata})).await;
        holder.granted(id).await;
    }
    let mut client = server.client().await;
    client.join(1).await;
    let (mut bytes, mut asked, mut refused) = (0, 0, 0);
    let fatal = loop {
        // A few at a time; the window of a client is larger.
        if refused == asked {
            for _ in 0..32 {
                asked += 1;
                client
                    .call(
                        json!({"type": "request", "id": asked, "agent": 1, "name": "n", "ifAvailable": true}),
                    )
                    .await;
            }
        }
        let frame = client.next().await;
        if frame["type"] == "fatal" {
            break frame;
        }
        if frame["type"] == "refused" {
            refused += 1;
            bytes += frame.to_string().len();
        }
        assert!(bytes < 70 << 20, "{bytes} bytes");
    };
    assert_eq!(fatal["code"], "slow_reader", "{fatal}");
    assert!(bytes > 30 << 20, "{bytes} bytes");
    assert_eq!(client.closed().await, 4429);
    drop(holder.try_send(json!({"type": "bye"})).await);
    server.is_empty_within(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_client_that_reads_and_acknowledges_is_not_dropped_for_refusals_that_name_many_holders() {
    // No window has more frames.
    const WINDOW: u64 = 2048;
    let server = TestServer::start().await;
    let mut holder = server.client().await;
    for id in 1..=8 {
        let (client_id, metadata) = ("c".repeat(256), "m".repeat(1024));
        holder.call(json!({"type": "join", "agent": id, "clientId": client_id})).await;
        holder.call(json!({"type": "request", "id": id, "agent": id, "name": "n", "mode": "shared", "metadata": metadata})).await;
        holder.granted(id).await;
    }
    let mut client = server.client().await;
    client.join(1).await;
    let (mut sink, mut stream) = client.socket.split();
    let (acknowledge, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
    let writing = tokio::spawn(async move {
        for id in 1..=WINDOW {
            let frame = json!({"type": "request", "seq": id + 1, "id": id, "agent": 1, "name": "n", "ifAvailable": true});
            sink.feed(Message::text(frame.to_string())).await.unwrap();
        }
        // Acknowledgements meanwhile are behind all these in any case.
        while let Some(ack) = acknowledged.recv().await {
            _ = sink.send(Message::text(json!({"type": "ack", "ack": ack}).to_string())).await;
        }
    });
    let mut refused = 0;
    while refused < WINDOW {
        let message = stream.next().await.unwrap().unwrap();
        for frame in frames(message.to_text().unwrap()) {
            if frame["type"] == "refused" {
                refused += 1;
                if refused % 64 == 0 {
                    acknowledge.send(refused).unwrap();
                }
                assert_eq!(frame["holders"].as_array().unwrap().len(), 8, "{frame}");
            } else {
                assert!(frame["type"] == "ack" || frame["type"] == "ping", "{frame}");
            }
        }
    }
    drop(acknowledge);
    writing.await.unwrap();
}

#[tokio::test]
async fn a_crowd_of_one_session_is_granted_at_once() {
    const CROWD: u64 = 40_000;
    // No ping is answered before all is sent.
    let server = TestServer::with(config(60_000)).await;
    let (mut holder, mut crowd) = (server.client().await, server.client().await);
    holder.join(1).await;
    crowd.join(1).await;
    holder.request(1, 1, "n").await;
    holder.granted(1).await;
    for id in 1..=CROWD {
        let frame =
            json!({"type": "request", "seq": id + 1, "id": id, "agent": 1, "name": "n", "mode": "shared"});
        crowd.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }
    // The query is answered after all that came before it.
    crowd.send(json!({"type": "query", "id": CROWD + 1, "name": "other"})).await;
    assert_eq!(crowd.next().await["type"], "snapshot");
    holder.release(1).await;
    for id in 1..=CROWD {
        crowd.granted(id).await;
        if id % 64 == 0 {
            crowd.send(json!({"type": "ack", "ack": id})).await;
        }
    }
    crowd.send(json!({"type": "query", "id": CROWD + 2, "name": "other"})).await;
    assert_eq!(crowd.next().await["type"], "snapshot");
}

#[tokio::test]
async fn a_session_has_as_many_requests_as_its_limit() {
    // No ping is answered before all is sent.
    let server = TestServer::with(config(60_000)).await;
    let mut client = server.client().await;
    let limit = client.welcome["limits"]["requestsPerAgent"].as_u64().unwrap();
    client.join(1).await;
    client.join(2).await;
    client.request(1, 1, "n").await;
    client.granted(1).await;
    for id in 2..=limit + 1 {
        let frame = json!({"type": "request", "seq": id + 2, "id": id, "agent": id % 2 + 1, "name": "n"});
        client.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }
    client.socket.flush().await.unwrap();
    let error = client.next().await;
    assert_eq!((&error["code"], &error["id"]), (&json!("quota_exceeded"), &json!(limit + 1)), "{error}");
    assert_eq!(error.get("retryAfterMs"), None, "nobody else can make room: {error}");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_and_delays_no_other() {
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
    // An unused bucket is forgotten.
    assert!(server.server.houses()[0].buckets().is_empty());
}

trait SendRaw {
    async fn send_raw(&mut self);
}

impl SendRaw for tokio_tungstenite::WebSocketStream<TcpStream> {
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
