//! Servers that break the protocol, or all connections: the client ends the session or comes back, and
//! nothing hangs.

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use lockhouse::remote::{ConnectError, connect};
use lockhouse::{Loss, RequestError};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

use crate::remote::scripted::{accept, next_text};

const WELCOME: &str = r#"{"type":"welcome","server":"x","epoch":"e","session":"s","secret":"t","resumed":false,"received":0,"leaseMs":60000,"heartbeatMs":6000,"limits":{"frameBytes":65536,"nameUnits":4096,"metadataBytes":1024,"agents":8,"requestsPerAgent":8,"windowBytes":196608}}"#;

/// The ends of a held lock and a pending request when a server that has granted request 1 goes on with this
/// message.
async fn after(message: Message) -> (Loss, RequestError) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut socket = accept(&listener).await;
        next_text(&mut socket).await.unwrap();
        socket.send(Message::text(WELCOME)).await.unwrap();
        let granted = r#"{"type":"granted","seq":1,"id":1,"token":1}"#;
        while let Some(text) = next_text(&mut socket).await {
            if text.contains(r#""id":1,"#) {
                socket.send(Message::text(granted)).await.unwrap();
            }
            if text.contains(r#""id":2,"#) {
                socket.send(message.clone()).await.unwrap();
            }
        }
        // The client ends the session, and begins another.
        let mut socket = accept(&listener).await;
        next_text(&mut socket).await.unwrap()
    });
    let connection = connect(url).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    let error = agent.locks().request("m").await.unwrap_err();
    let hello = server.await.unwrap();
    assert!(!hello.contains("resume"), "{hello}");
    (held.lost().await, error)
}

#[tokio::test]
async fn what_a_server_must_not_send_ends_the_session() {
    let cases = [
        ("not JSON", "the message is no JSON object"),
        (r#"{"type":"surprise","seq":2}"#, "type is surprise"),
        (r#"{"type":"granted","seq":2,"id":2}"#, "token is absent"),
        (r#"{"type":"granted","seq":3,"id":2,"token":2}"#, "seq is 3, but 2 was due"),
        (r#"{"type":"granted","seq":2,"id":1,"token":2}"#, "it granted request 1 twice"),
        (r#"{"type":"granted","seq":2,"id":99,"token":2}"#, "it granted request 99, which was never made"),
        (r#"{"type":"ack","ack":99}"#, "it acknowledged frame 99, which was never sent"),
        (WELCOME, "a second welcome"),
    ];
    for (text, why) in cases {
        let (loss, error) = after(Message::text(text)).await;
        assert_eq!(loss, Loss::SessionEnded, "{text}");
        let RequestError::Protocol(message) = &error else { panic!("{text}: {error}") };
        assert!(message.starts_with(why), "{text}: {message}");
    }
}

#[tokio::test]
async fn a_message_that_is_no_text_ends_the_session() {
    let (loss, error) = after(Message::binary(vec![1, 2, 3])).await;
    assert_eq!(loss, Loss::SessionEnded);
    assert!(matches!(error, RequestError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_blames_a_frame_of_ours_is_not_sent_it_again() {
    let fatal = r#"{"type":"fatal","code":"bad_frame","message":"seq must be a number"}"#;
    let (loss, error) = after(Message::text(fatal)).await;
    assert_eq!((loss, error), (Loss::SessionEnded, RequestError::Refused("seq must be a number".to_owned())));
}

#[tokio::test]
async fn an_error_ends_its_request_only() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut socket = accept(&listener).await;
        next_text(&mut socket).await.unwrap();
        socket.send(Message::text(WELCOME)).await.unwrap();
        let codes = ["unknown_agent", "closing", "quota_exceeded", "of_the_future"];
        for (seq, code) in (1..).zip(codes) {
            while !next_text(&mut socket).await.unwrap().contains(&format!(r#""id":{seq},"#)) {}
            let parts = r#""field":"bucket","value":"9 names","rule":"at most 8","message":"too much""#;
            let error = format!(r#"{{"type":"error","seq":{seq},"id":{seq},"code":"{code}",{parts}}}"#);
            socket.send(Message::text(error)).await.unwrap();
        }
        while next_text(&mut socket).await.is_some() {}
    });
    let connection = connect(url).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let mut errors = Vec::new();
    for _ in 0..4 {
        errors.push(agent.locks().request("n").await.unwrap_err().to_string());
    }
    assert_eq!(
        errors,
        [
            "the agent has ended",
            "the bucket is closed",
            "bucket: 9 names, but at most 8",
            "refused by the server: too much"
        ]
    );
}

#[tokio::test]
async fn what_is_no_lockhouse_server_is_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let greeted = tokio::spawn(async move {
        let mut socket = accept(&listener).await;
        next_text(&mut socket).await.unwrap();
        socket.send(Message::text(r#"{"type":"ack","ack":0}"#)).await.unwrap();
        next_text(&mut socket).await;
        // From now on no server listens.
    });
    let error = connect(&url).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotLockhouse { .. }), "{error}");
    greeted.await.unwrap();
    let error = connect(&url).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_connection_that_outlived_a_heartbeat_is_followed_by_another_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut away = Duration::ZERO;
        for _ in 0..8 {
            let begin = Instant::now();
            let mut socket = accept(&listener).await;
            away += begin.elapsed();
            next_text(&mut socket).await.unwrap();
            socket.send(Message::text(WELCOME.replace(":6000,", ":20,"))).await.unwrap();
            // The client gives a server up that is silent for some heartbeats.
            while next_text(&mut socket).await.is_some() {}
        }
        away
    });
    let connection = connect(url).await.unwrap();
    let away = server.await.unwrap();
    // Seven first pauses are of 0.1 s at most; pauses that doubled would make 5.6 s and more.
    assert!(away < Duration::from_secs(3), "{away:?}");
    drop(connection);
}
