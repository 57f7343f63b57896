//! Ends that come while the server has something to say: the session ends with them at once, not with its
//! lease.

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::sessions::support::{Client, PATIENCE, TestServer, config};

/// Nothing here ends because its lease does.
async fn server() -> TestServer {
    TestServer::with(config(600_000)).await
}

/// A client that has asked for far more than fits between server and client, and reads nothing of it.
async fn deaf_holder(server: &TestServer) -> Client {
    let mut deaf = server.client().await;
    deaf.join(1).await;
    deaf.request(1, 1, "n").await;
    deaf.granted(1).await;
    for id in 2..500 {
        deaf.request(id, 1, &format!("{id}{}", "n".repeat(4000))).await;
        deaf.granted(id).await;
    }
    // Two megabytes each.
    for id in 500..520 {
        deaf.send(json!({"type": "query", "id": id})).await;
    }
    deaf
}

async fn waiter(server: &TestServer) -> Client {
    let mut waiter = server.client().await;
    waiter.join(1).await;
    waiter.request(1, 1, "n").await;
    waiter
}

/// A grant before any client could take this one for one that is stuck.
async fn granted_at_once(server: &TestServer) {
    let begin = Instant::now();
    waiter(server).await.granted(1).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_close_is_heeded_at_once_though_much_waits_to_be_written() {
    for code in [1000, 1001] {
        let server = server().await;
        let mut deaf = deaf_holder(&server).await;
        deaf.close(code).await;
        granted_at_once(&server).await;
        drop(deaf);
    }
}

#[tokio::test]
async fn a_bye_is_heeded_at_once_though_much_waits_to_be_written() {
    let server = server().await;
    let mut deaf = deaf_holder(&server).await;
    deaf.send(json!({"type": "bye"})).await;
    granted_at_once(&server).await;
    drop(deaf);
}

#[tokio::test]
async fn a_close_behind_more_than_is_looked_through_is_heeded_when_the_client_has_taken_nothing_for_ten_seconds()
 {
    let server = server().await;
    let mut deaf = deaf_holder(&server).await;
    for id in 520..530 {
        let filler = "x".repeat(60_000);
        deaf.send(json!({"type": "query", "id": id, "filler": filler})).await;
    }
    deaf.close(1000).await;
    waiter(&server).await.granted(1).await;
    drop(deaf);
}

/// Sends these bytes before any other task can run. When the client is dropped, its connection breaks by a
/// reset.
fn send_last(client: &Client, bytes: &[u8]) {
    let stream = client.socket.get_ref();
    assert_eq!(stream.try_write(bytes).unwrap(), bytes.len());
    stream.set_zero_linger().unwrap();
}

#[tokio::test]
async fn an_end_is_heeded_though_a_write_to_the_broken_connection_fails_before_it_is_read() {
    // Masked with zeros: a close with 1000, and a bye.
    let close = [&[0x88, 0x82, 0, 0, 0, 0][..], &1000_u16.to_be_bytes()].concat();
    let bye = [&[0x81, 0x80 | 14, 0, 0, 0, 0][..], br#"{"type":"bye"}"#].concat();
    for last_words in [close, bye] {
        let server = server().await;
        // Held in the process of the server, so that its release reaches the session before anything from
        // outside does.
        let agent = server.server.houses()[0].bucket("default").agent("holder").unwrap();
        let held = agent.locks().request("n").await.unwrap();
        let mut client = waiter(&server).await;
        assert_eq!(client.query(2).await.1, ["n"]);
        send_last(&client, &last_words);
        drop(client);
        drop((held, agent));
        server.is_empty_within(PATIENCE).await;
    }
}

#[tokio::test]
async fn a_connection_that_breaks_without_an_end_can_be_resumed_though_a_write_fails_before_that_is_read() {
    let server = server().await;
    let agent = server.server.houses()[0].bucket("default").agent("holder").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    let mut client = waiter(&server).await;
    assert_eq!(client.query(2).await.1, ["n"]);
    let again = Client::open(server.address, "").await;
    let mut again = Client { welcome: client.welcome.clone(), seq: client.seq, ..again };
    send_last(&client, &[]);
    drop(client);
    drop((held, agent));
    let hello = json!({"type": "hello", "resume": {"session": again.welcome["session"], "secret": again.welcome["secret"], "received": 0}});
    again.socket.send(Message::text(hello.to_string())).await.unwrap();
    assert_eq!(again.next().await["resumed"], true);
    again.granted(1).await;
}
