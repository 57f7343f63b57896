//! What clients see when slots move, by will or by death.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use lockhouse::remote::connect;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header};

use crate::cluster::fleet::{Fleet, LEASE, SLOT_LEASE, url};
use crate::running::{Running, lockhouse, run};

/// How much later than the leases allow others may go on, also on a busy machine.
const TAKEOVER: Duration = Duration::from_secs(6);

/// One call to claim; the status and the answer.
async fn claim(http: &Client, node: &Running, bucket: &str, resource: &str) -> (StatusCode, Value) {
    let body = json!({"resource": resource, "claimant": "ada", "ttlMs": 60_000});
    call(http, node, &format!("/v1/buckets/{bucket}/claims"), &body).await
}

async fn call(http: &Client, node: &Running, path: &str, body: &Value) -> (StatusCode, Value) {
    let request = http.post(format!("{}{path}", url(node))).header("content-type", "application/json");
    let answer = request.body(body.to_string()).send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_any_node_has_every_bucket() {
    let (fleet, nodes) = Fleet::of(3);
    let [a, b, c] = &nodes[..] else { unreachable!() };
    let http = Client::new();
    for label in ["a", "b", "c"] {
        let bucket = fleet.bucket_at(a, label);
        // A web lock through each node: the second one waits for the first, whichever node it comes to.
        let mut held = None;
        for node in [a, b, c] {
            let connection = connect(format!("{}/?bucket={bucket}", url(node))).await.unwrap();
            let agent = connection.agent("x").unwrap();
            let lock = agent.locks().request("n").if_available().await;
            match &held {
                None => held = Some((connection, agent, lock.unwrap())),
                Some(_) => assert!(lock.is_err(), "held twice, by {label} and through {}", node.address),
            }
        }
        // A claim through one node is the same through the others.
        let (status, claimed) = claim(&http, a, &bucket, "seat").await;
        assert_eq!(status, 201, "{claimed}");
        let (status, refused) = claim(&http, b, &bucket, "seat").await;
        assert_eq!((status, &refused["code"]), (StatusCode::CONFLICT, &json!("claimed")), "{refused}");
        let token = json!({"resource": "seat", "token": claimed["token"]});
        let (status, done) = call(&http, c, &format!("/v1/buckets/{bucket}/claims/finalize"), &token).await;
        assert_eq!(status, 200, "{done}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_the_others_go_on_and_the_holder_keeps_its_lock() {
    let (fleet, mut nodes) = Fleet::of(2);
    let bucket = fleet.bucket_at(&nodes[0], "b");
    let empty = (0..).map(|number| format!("other-{number}")).find(|name| fleet.is_at(&nodes[0], name, "b"));
    let empty = empty.unwrap();
    let [a, b] = [0, 1].map(|at| format!("{}/?bucket={bucket}", url(&nodes[at])));
    let connection = connect(b).or(a).await.unwrap();
    let agent = connection.agent("holder").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    let token = held.fencing_token();
    drop(nodes.pop());
    let killed = Instant::now();
    // What is durable goes on once the dead node is declared dead.
    let http = Client::new();
    loop {
        let (status, answer) = claim(&http, &nodes[0], &empty, "seat").await;
        if status == 201 {
            break;
        }
        assert!(status == 503, "{status} {answer}");
        assert!(killed.elapsed() < SLOT_LEASE + TAKEOVER, "{:?} {answer}", killed.elapsed());
    }
    println!("a claim {:?} after the kill", killed.elapsed());
    // Another client gets a web lock only once the holders of before are back, or their leases are over.
    let other = connect(format!("{}/?bucket={bucket}", url(&nodes[0]))).await.unwrap();
    let waiter = other.agent("waiter").unwrap();
    let free = waiter.locks().request("free").await.unwrap();
    let after = killed.elapsed();
    println!("a web lock {after:?} after the kill");
    assert!(after >= SLOT_LEASE + LEASE - SLOT_LEASE / 4, "{after:?}");
    assert!(after < SLOT_LEASE + LEASE + TAKEOVER, "{after:?}");
    assert!(free.fencing_token() > token);
    assert_eq!((held.loss(), held.fencing_token()), (None, token));
    assert!(waiter.locks().request("n").if_available().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_drained_or_stopped_takes_no_lock_along() {
    let (fleet, mut nodes) = Fleet::of(2);
    let bucket = fleet.bucket_at(&nodes[0], "b");
    let [a, b] = [0, 1].map(|at| format!("{}/?bucket={bucket}", url(&nodes[at])));
    // Through the node that does not own it, and directly.
    let (through, direct) = (connect(a.clone()).await.unwrap(), connect(b).or(a).await.unwrap());
    let (through, direct) = (through.agent("through").unwrap(), direct.agent("direct").unwrap());
    let one = through.locks().request("one").await.unwrap();
    let other = direct.locks().request("other").await.unwrap();
    let tokens = [one.fencing_token(), other.fencing_token()];
    let drain = ["cluster", "drain", "b", "--url", &url(&nodes[0])];
    let (code, _, error) = run(&mut lockhouse(fleet.folder.path(), &drain));
    assert_eq!(code, Some(0), "{error}");
    fleet.settled(&[&nodes[0]]);
    // The list of held locks lets all others be granted at once.
    let begun = Instant::now();
    let free = through.locks().request("free").await.unwrap();
    assert!(begun.elapsed() < LEASE / 2, "{:?}", begun.elapsed());
    assert!(through.locks().request("other").if_available().await.is_err());
    // The node that has left hands on what comes to it, and ends at once.
    let http = Client::new();
    let (status, answer) = claim(&http, &nodes[1], &bucket, "seat").await;
    assert_eq!(status, 201, "{answer}");
    let (code, _) = nodes.pop().unwrap().terminate();
    assert_eq!(code, Some(0));
    assert_eq!([one.loss(), other.loss()], [None, None]);
    assert_eq!([one.fencing_token(), other.fencing_token()], tokens);
    drop(free);
    for lock in [one, other] {
        assert_eq!(lock.release().await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_close_comes_of_a_node_between() {
    let (fleet, mut nodes) = Fleet::of(2);
    let bucket = fleet.bucket_at(&nodes[0], "b");
    let mut request =
        format!("ws://{}/v1/ws?bucket={bucket}", nodes[0].address).into_client_request().unwrap();
    let protocol = HeaderValue::from_static(lockhouse_wire::SUBPROTOCOL);
    request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    let (mut socket, _) = connect_async(request).await.unwrap();
    socket.send(Message::text(r#"{"type":"hello"}"#)).await.unwrap();
    let welcome = socket.next().await.unwrap().unwrap();
    assert!(welcome.to_text().unwrap().contains("welcome"), "{welcome}");
    // As if the network were cut: a close would say that the session may be given up.
    drop(nodes.pop());
    loop {
        match socket.next().await {
            Some(Ok(Message::Close(frame))) => panic!("{frame:?}"),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_hangs_nothing_is_said_and_then_all_goes_on() {
    let (fleet, nodes) = Fleet::of(1);
    let http = Client::new();
    let connection = connect(url(&nodes[0])).await.unwrap();
    let agent = connection.agent("a").unwrap();
    let held = agent.locks().request("before").await.unwrap();
    drop(held);
    let mut client = fleet.database.connect().await;
    let blocking = client.transaction().await.unwrap();
    blocking.batch_execute("LOCK TABLE lockhouse.nodes IN ACCESS EXCLUSIVE MODE").await.unwrap();
    // The node falls silent.
    let ready = format!("{}/readyz", url(&nodes[0]));
    let begun = Instant::now();
    while !http.get(&ready).send().await.unwrap().text().await.unwrap().contains("the node is silent") {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(http.get(format!("{}/livez", url(&nodes[0]))).send().await.unwrap().status(), 200);
    // The lease of the node is over: no grant gets out, whatever its table says.
    let locks = agent.locks().clone();
    let silent = tokio::spawn(async move { locks.request("during").await });
    let (status, answer) = claim(&http, &nodes[0], "default", "seat").await;
    assert!(matches!(status.as_u16(), 503 | 504), "{status} {answer}");
    // Nor does a look at it.
    let look = format!("{}/v1/buckets/default/query", url(&nodes[0]));
    assert_eq!(http.get(&look).send().await.unwrap().status(), 503);
    assert!(!silent.is_finished());
    blocking.rollback().await.unwrap();
    let granted = tokio::time::timeout(Duration::from_secs(20), silent).await.unwrap().unwrap();
    drop(granted.unwrap());
    while http.get(&ready).send().await.unwrap().status() != 200 {
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
    loop {
        let (status, answer) = claim(&http, &nodes[0], "default", "other").await;
        if status == 201 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{status} {answer}");
    }
}
