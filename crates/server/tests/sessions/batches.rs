//! Messages of several frames.

use futures_util::StreamExt;
use lockhouse_server::{Config, LimitSettings};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::sessions::support::{Client, TestServer, config, frames};

fn request(seq: u64, id: u64, name: &str) -> Value {
    json!({"type": "request", "seq": seq, "id": id, "agent": 1, "name": name})
}

/// The next message that is more than a ping.
async fn message(client: &mut Client) -> Vec<Value> {
    loop {
        let Message::Text(text) = client.socket.next().await.unwrap().unwrap() else { continue };
        let frames = frames(&text);
        if frames[0]["type"] != "ping" {
            return frames;
        }
    }
}

#[tokio::test]
async fn what_comes_in_one_message_is_answered_in_one_message_and_in_order() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    let requests = (1..=10).map(|id| request(id + 1, id, &format!("n{id}")));
    let join = json!({"type": "join", "seq": 1, "agent": 1, "clientId": "a"});
    let all: Vec<_> = std::iter::once(join).chain(requests).collect();
    client.send(json!(all)).await;
    let mut granted = Vec::new();
    let mut messages = 0;
    while granted.len() < 10 {
        messages += 1;
        granted.extend(message(&mut client).await.iter().map(|frame| frame["id"].as_u64().unwrap()));
    }
    assert_eq!(granted, (1..=10).collect::<Vec<_>>());
    assert!(messages <= 2, "{messages} messages");
}

#[tokio::test]
async fn the_frames_before_a_bad_one_count_and_the_error_names_its_place() {
    let join = json!({"type": "join", "seq": 1, "agent": 1, "clientId": "a"});
    let held = request(2, 1, "n");
    for (bad, code, field) in [
        (json!([join, held, []]), "bad_frame", Value::Null),
        (json!([join, held, 7]), "bad_frame", Value::Null),
        (json!([join, held, {"type": "release", "id": 1}]), "bad_frame", json!("seq")),
        (json!([join, held, {"type": "release", "seq": 9, "id": 1}]), "bad_seq", json!("seq")),
        (json!([join, held, {"type": "ack", "ack": 99}]), "bad_seq", json!("ack")),
    ] {
        let server = TestServer::start().await;
        let mut client = server.client().await;
        client.send(bad.clone()).await;
        client.granted(1).await;
        let fatal = client.next().await;
        assert_eq!((&fatal["type"], &fatal["code"]), (&json!("fatal"), &json!(code)), "{bad}: {fatal}");
        assert_eq!(fatal.get("field").unwrap_or(&Value::Null), &field, "{bad}");
        assert!(fatal["message"].as_str().unwrap().starts_with("frame 2 of the array: "), "{fatal}");
        assert_eq!(client.closed().await, 4400);
        // The session goes on, and what came before the bad frame stands.
        let mut again = Client::resume(server.address, &client).await;
        assert_eq!((&again.welcome["resumed"], &again.welcome["received"]), (&json!(true), &json!(2)));
        assert_eq!(again.query(2).await.0, ["n"]);
    }
}

#[tokio::test]
async fn an_array_is_never_empty_and_has_at_most_1024_frames() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.send(json!([])).await;
    assert_eq!(client.next().await["message"], "frame 0 of the array: an array has at least one frame");
    assert_eq!(client.closed().await, 4400);
    let mut client = server.client().await;
    let aborts: Vec<_> = (1..=1025).map(|seq| json!({"type": "abort", "seq": seq, "id": 1})).collect();
    client.send(json!(aborts)).await;
    let fatal = client.next().await;
    assert_eq!(fatal["message"], "frame 1024 of the array: a message has at most 1024 frames");
    assert_eq!(client.closed().await, 4400);
    let again = Client::resume(server.address, &client).await;
    assert_eq!(again.welcome["received"], 1024);
}

#[tokio::test]
async fn each_frame_of_an_array_counts_for_the_rates() {
    let limits = LimitSettings { session_rate: 100, ..LimitSettings::default() };
    let server = TestServer::with(Config { limits, ..config(10_000) }).await;
    let mut client = server.client().await;
    client.join(1).await;
    let begun = std::time::Instant::now();
    let aborts: Vec<_> = (2..=501).map(|seq| json!({"type": "abort", "seq": seq, "id": 1})).collect();
    client.send(json!(aborts)).await;
    client.seq = 501;
    // A query is answered behind all of them.
    client.query(2).await;
    assert!(begun.elapsed().as_secs_f64() > 2.0, "after {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_pong_behind_a_long_array_keeps_the_lease() {
    let limits = LimitSettings { session_rate: 100, ..LimitSettings::default() };
    let server = TestServer::with(Config { limits, ..config(1_000) }).await;
    let mut client = server.client().await;
    client.join(1).await;
    client.request(1, 1, "n").await;
    client.granted(1).await;
    let aborts: Vec<_> = (3..=502).map(|seq| json!({"type": "abort", "seq": seq, "id": 9})).collect();
    client.send(json!(aborts)).await;
    client.seq = 502;
    // Pings are answered meanwhile; the query waits for its turn, for several leases.
    assert_eq!(client.query(2).await.0, ["n"]);
}
