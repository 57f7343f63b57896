//! Resumes: after cuts at every frame, by takeover, with late, gathered and reordered delivery.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::sessions::gate::{Gate, manual, poll, record};
use crate::sessions::support::proxy::{Direction, Fault, Proxy};
use crate::sessions::support::resuming::Resuming;
use crate::sessions::support::{Client, TestServer, config};

/// The calls of one client with two agents; and the frames that it receives, tokens aside.
fn script() -> (Vec<Value>, Vec<Value>) {
    let request =
        |id: u64, agent: u64, name: &str| json!({"type": "request", "id": id, "agent": agent, "name": name});
    let with = |mut frame: Value, key: &str, value: Value| {
        frame[key] = value;
        frame
    };
    let calls = vec![
        json!({"type": "join", "agent": 1, "clientId": "a"}),
        json!({"type": "join", "agent": 2, "clientId": "b"}),
        request(1, 1, "x"),
        request(2, 2, "x"),
        request(3, 1, "y"),
        with(request(4, 2, "y"), "ifAvailable", json!(true)),
        request(5, 2, "y"),
        json!({"type": "abort", "id": 5}),
        json!({"type": "release", "id": 1}),
        with(request(6, 1, "x"), "steal", json!(true)),
        with(json!({"type": "release", "id": 2}), "reply", json!(true)),
        with(json!({"type": "release", "id": 6}), "reply", json!(true)),
        request(7, 9, "z"),
        request(8, 2, "z"),
        json!({"type": "leave", "agent": 1}),
        with(request(9, 2, "y"), "ifAvailable", json!(true)),
    ];
    let frames = vec![
        json!(["granted", 1]),
        json!(["granted", 3]),
        json!(["refused", 4]),
        json!(["granted", 2]),
        json!(["lost", 2]),
        json!(["granted", 6]),
        json!(["released", 2]),
        json!(["released", 6]),
        json!(["error", 7]),
        json!(["granted", 8]),
        json!(["granted", 9]),
    ];
    (calls, frames)
}

/// Plays the script over that proxy; gives how often it was resumed.
async fn play(proxy: &Proxy, paced: bool) -> usize {
    let (calls, expected) = script();
    let mut client = Resuming::connect(proxy.address).await;
    let mut received = Vec::new();
    let mut last_token = 0;
    // Paced, the answers to a call are awaited before the next; else all calls are sent at once.
    let answers_after = [0, 0, 1, 0, 1, 1, 0, 0, 1, 2, 1, 1, 1, 1, 0, 1];
    for (call, answers) in calls.into_iter().zip(answers_after) {
        client.call(call).await;
        for _ in 0..if paced { answers } else { 0 } {
            received.push(client.next().await);
        }
    }
    while received.len() < expected.len() {
        received.push(client.next().await);
    }
    for frame in received.iter().filter(|frame| frame["type"] == "granted") {
        let token = frame["token"].as_u64().unwrap();
        assert!(token > last_token, "{received:?}");
        last_token = token;
    }
    let received: Vec<_> = received.iter().map(|frame| json!([frame["type"], frame["id"]])).collect();
    assert_eq!(received, expected);
    let resumed = client.resumed;
    client.bye().await;
    resumed
}

#[tokio::test]
async fn a_cut_after_every_frame_in_both_directions_ends_in_a_resume() {
    let mut plays = JoinSet::new();
    for direction in [Direction::ToServer, Direction::ToClient] {
        for paced in [false, true] {
            for after in 0..=20 {
                plays.spawn(async move {
                    let server = TestServer::with(config(5_000)).await;
                    let proxy = Proxy::start(server.address, Fault::CutAfter(direction, after)).await;
                    let resumed = play(&proxy, paced).await;
                    let connections = proxy.connections.load(Ordering::SeqCst);
                    assert!((1..=3).contains(&connections), "{connections} connections");
                    // A session whose welcome was cut off belongs to no client, and ends with its lease.
                    server.is_empty_within(Duration::from_secs(7)).await;
                    resumed
                });
            }
        }
    }
    let resumes: usize = plays.join_all().await.into_iter().sum();
    // Frames that go together are cut together.
    assert!(resumes > 40, "only {resumes} cuts hit a session");
}

#[tokio::test]
async fn late_and_gathered_delivery_changes_nothing() {
    let server = TestServer::start().await;
    for fault in [Fault::Delay { most_ms: 15 }, Fault::Batch { every_ms: 30 }] {
        let proxy = Proxy::start(server.address, fault).await;
        assert_eq!(play(&proxy, false).await, 0);
        assert_eq!(play(&proxy, true).await, 0);
        server.is_empty_within(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn clients_whose_messages_overtake_one_another_still_take_turns() {
    let server = TestServer::start().await;
    let proxy = Proxy::start(server.address, Fault::Delay { most_ms: 12 }).await;
    let holders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (address, holders) = (proxy.address, holders.clone());
            tokio::spawn(async move {
                let mut client = Client::hello(address, "").await;
                client.join(1).await;
                let mut tokens = Vec::new();
                for id in 1..=8 {
                    client.request(id, 1, "n").await;
                    tokens.push(client.granted(id).await);
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::task::yield_now().await;
                    holders.fetch_sub(1, Ordering::SeqCst);
                    client.release(id).await;
                }
                // The last release must arrive before the connection goes.
                client.call(json!({"type": "release", "id": 8, "reply": true})).await;
                client.next().await;
                client.close(1000).await;
                tokens
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        let tokens = task.await.unwrap();
        assert!(tokens.is_sorted());
        all.extend(tokens);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 48);
}

#[tokio::test]
async fn a_resume_takes_over_from_a_connection_that_seems_alive() {
    let server = TestServer::start().await;
    let mut first = server.client().await;
    first.join(1).await;
    first.request(1, 1, "n").await;
    first.granted(1).await;
    let mut second = Client::resume(server.address, &first).await;
    assert_eq!(second.welcome["resumed"], true);
    assert_eq!(second.welcome["received"], 2);
    assert_eq!(first.next().await["code"], "replaced");
    assert_eq!(first.closed().await, 4409);
    second.release(1).await;
    assert_eq!(second.query(2).await, (vec![], vec![]));
    assert_eq!(server.server.session_count(), 1);
}

/// Opens a connection whose `hello` resumes the session of that client.
async fn attempt(server: &TestServer, of: &Client, number: Option<u64>) -> Client {
    let mut client = Client::open(server.address, "").await;
    let resume = json!({
        "session": of.welcome["session"], "secret": of.welcome["secret"], "received": 0, "attempt": number,
    });
    client.send(json!({"type": "hello", "resume": resume})).await;
    client
}

#[tokio::test]
async fn a_resume_that_arrives_late_takes_the_session_from_no_newer_connection() {
    let server = TestServer::start().await;
    let mut first = server.client().await;
    first.join(1).await;
    first.request(1, 1, "n").await;
    first.granted(1).await;
    let is_refused = async |number| {
        let mut late = attempt(&server, &first, Some(number)).await;
        assert_eq!(late.next().await["code"], "replaced");
        assert_eq!(late.closed().await, 4409);
    };
    let mut second = attempt(&server, &first, Some(3)).await;
    assert_eq!(second.next().await["resumed"], true);
    // The client has acknowledged nothing.
    second.granted(1).await;
    is_refused(2).await;
    is_refused(3).await;
    assert_eq!(second.query(2).await.0, ["n"]);
    // Also while there is no connection.
    drop(second);
    is_refused(3).await;
    let mut third = attempt(&server, &first, Some(4)).await;
    assert_eq!(third.next().await["resumed"], true);
    // A client that does not count is always believed.
    assert_eq!(attempt(&server, &first, None).await.next().await["resumed"], true);
    assert_eq!(server.server.session_count(), 1);
}

#[tokio::test]
async fn a_resume_in_another_scope_finds_nothing() {
    let server = TestServer::start().await;
    let mut first = server.client().await;
    first.join(1).await;
    for query in ["?bucket=other", "?partition=other"] {
        let mut other = Client::open(server.address, query).await;
        let resume =
            json!({"session": first.welcome["session"], "secret": first.welcome["secret"], "received": 0});
        other.send(json!({"type": "hello", "resume": resume})).await;
        let welcome = other.next().await;
        assert_eq!(welcome["resumed"], false);
        assert_ne!(welcome["session"], first.welcome["session"]);
    }
    first.query(1).await;
}

#[tokio::test]
async fn a_resume_that_claims_frames_never_sent_is_fatal_and_disturbs_no_other_client() {
    let server = TestServer::start().await;
    let mut first = server.client().await;
    let mut liar = Client::open(server.address, "").await;
    let resume =
        json!({"session": first.welcome["session"], "secret": first.welcome["secret"], "received": 9});
    liar.send(json!({"type": "hello", "resume": resume})).await;
    let fatal = liar.next().await;
    assert_eq!((&fatal["code"], &fatal["field"]), (&json!("bad_seq"), &json!("resume.received")));
    assert_eq!(liar.closed().await, 4400);
    first.query(1).await;
}

#[tokio::test]
async fn secrets_are_long_and_differ() {
    let server = TestServer::start().await;
    let (a, b) = (server.client().await.welcome, server.client().await.welcome);
    assert!(a["secret"].as_str().unwrap().len() >= 32);
    assert_ne!(a["secret"], b["secret"]);
    assert_ne!(a["session"], b["session"]);
    assert_eq!(a["epoch"], b["epoch"]);
}

#[tokio::test]
async fn a_resume_after_the_end_of_the_lease_finds_no_session_also_while_the_store_is_away() {
    let gate = Gate::new();
    let (clock, options) = manual();
    let house = gate.house_with(options).await;
    let owner = house.bucket("default").owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    let server = TestServer::over(config(10_000), house).await;
    let mut before = server.client().await;
    before.join(1).await;
    before.request(1, 1, "n").await;
    before.granted(1).await;
    gate.shut();
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    clock.advance(Duration::from_secs(11));
    let after = Client::resume(server.address, &before).await;
    assert_eq!(after.welcome["resumed"], false);
    gate.open();
    lock.await.unwrap();
}
