//! Streams of events in a fleet: through any node, and what becomes of them when the bucket moves.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};

use crate::cluster::fleet::{Fleet, url};
use crate::events::stream::Stream;
use crate::running::{Running, lockhouse, run};

/// Long enough for a takeover, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The events of a bucket at a node, behind the event with that id if there is one.
async fn events(node: &Running, bucket: &str, last: Option<&str>) -> Stream {
    let headers: Vec<_> = last.into_iter().map(|id| ("last-event-id", id)).collect();
    Stream::of(&format!("{}/v1/buckets/{bucket}/events", url(node)), &headers).await
}

/// Claims as soon as the bucket is served.
async fn claim(node: &Running, bucket: &str, resource: &str) {
    let begun = Instant::now();
    let url = format!("{}/v1/buckets/{bucket}/claims", url(node));
    let body = json!({"resource": resource, "claimant": "ada", "ttlMs": 600_000}).to_string();
    loop {
        let request = Client::new().post(&url).header("content-type", "application/json");
        let answer = request.body(body.clone()).send().await.unwrap();
        if answer.status() == 201 {
            return;
        }
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status == 503 && begun.elapsed() < PATIENCE, "{status} {text}");
    }
}

/// The gap and the state that a reader gets who was at another node before; the names of the state.
async fn gap_and_state(stream: &mut Stream) -> Vec<Value> {
    assert_eq!(stream.next().await.unwrap().kind, "gap");
    let state = stream.next().await.unwrap();
    assert_eq!((&*state.kind, &state.data["last"]), ("state", &json!(true)));
    let mut names: Vec<_> =
        state.data["entries"].as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_the_same_through_any_node_and_ends_with_a_move_after_which_the_next_node_goes_on() {
    let (fleet, nodes) = Fleet::of(2);
    let bucket = fleet.bucket_at(&nodes[0], "b");
    let mut through = events(&nodes[0], &bucket, None).await;
    let mut direct = events(&nodes[1], &bucket, None).await;
    through.first_id().await;
    direct.first_id().await;
    claim(&nodes[0], &bucket, "one").await;
    let (first, same) = (through.next().await.unwrap(), direct.next().await.unwrap());
    assert_eq!((&*first.kind, &first.data["name"], &first.id), ("granted", &json!("one"), &same.id));

    let drain = ["cluster", "drain", "b", "--url", &url(&nodes[0])];
    let (code, _, error) = run(&mut lockhouse(fleet.folder.path(), &drain));
    assert_eq!(code, Some(0), "{error}");
    // Each ends in time; nothing is told that was not before.
    assert!(through.next().await.is_none() && direct.next().await.is_none());
    fleet.settled(&[&nodes[0]]);
    claim(&nodes[1], &bucket, "two").await;
    for node in &nodes {
        let mut again = events(node, &bucket, Some(&first.id)).await;
        assert_eq!(gap_and_state(&mut again).await, [json!("one"), json!("two")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_node_that_has_the_bucket_and_the_next_node_gives_the_state() {
    let (fleet, mut nodes) = Fleet::of(2);
    let bucket = fleet.bucket_at(&nodes[0], "b");
    let mut through = events(&nodes[0], &bucket, None).await;
    claim(&nodes[0], &bucket, "one").await;
    let last = through.next().await.unwrap();
    drop(nodes.pop());
    assert!(through.next().await.is_none());
    claim(&nodes[0], &bucket, "two").await;
    let mut again = events(&nodes[0], &bucket, Some(&last.id)).await;
    assert_eq!(gap_and_state(&mut again).await, [json!("one"), json!("two")]);
    claim(&nodes[0], &bucket, "three").await;
    let next = again.next().await.unwrap();
    assert_eq!((&*next.kind, &next.data["name"]), ("granted", &json!("three")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_answer_is_missing_in_the_list_of_buckets() {
    let (fleet, nodes) = Fleet::of(2);
    let [at_a, at_b] = ["a", "b"].map(|label| fleet.bucket_at(&nodes[0], label));
    claim(&nodes[0], &at_a, "seat").await;
    claim(&nodes[0], &at_b, "seat").await;
    let list = async || {
        let answer = Client::new().get(format!("{}/v1/buckets", url(&nodes[0]))).send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let names = |list: &Value| -> Vec<Value> {
        list["buckets"].as_array().unwrap().iter().map(|bucket| bucket["bucket"].clone()).collect()
    };
    // One that stands still keeps its slots until the others declare it dead, and then they have its buckets.
    nodes[1].stand_still();
    let begun = Instant::now();
    let mut was_missing = false;
    loop {
        let list = list().await;
        match list["missing"].as_array().unwrap().as_slice() {
            [] if was_missing && names(&list).contains(&json!(at_b)) => break,
            [] => {}
            [missing] => {
                assert!(missing == "b" && names(&list).contains(&json!(at_a)), "{list}");
                was_missing = true;
            }
            more => panic!("{more:?}"),
        }
        assert!(begun.elapsed() < PATIENCE, "{list}");
        if was_missing {
            claim(&nodes[0], &at_b, "other").await;
        }
    }
    nodes[1].go_on();
}
