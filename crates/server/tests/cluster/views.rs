//! What dashboards ask a fleet: any node answers for all of them.

use std::time::{Duration, Instant};

use lockhouse::remote::connect;
use reqwest::Client;
use serde_json::{Value, json};

use crate::cluster::fleet::{Fleet, url};
use crate::running::Running;

async fn get(http: &Client, node: &Running, path: &str) -> Value {
    let answer = http.get(format!("{}{path}", url(node))).send().await.unwrap();
    let status = answer.status();
    let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert!(status.is_success(), "{path}: {status} {body}");
    body
}

#[tokio::test]
async fn any_node_shows_the_buckets_of_all_and_hands_on_what_is_about_one() {
    let (fleet, nodes) = tokio::task::spawn_blocking(|| Fleet::of(2)).await.unwrap();
    let [at_a, at_b] = ["a", "b"].map(|label| fleet.bucket_at(&nodes[0], label));
    let http = Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
    let mut held = Vec::new();
    for bucket in [&at_a, &at_b] {
        let connection = connect(url(&nodes[0])).bucket(bucket.as_str()).await.unwrap();
        let agent = connection.agent("holder").unwrap();
        held.push((agent.locks().request("n").await.unwrap(), agent, connection));
    }
    for node in &nodes {
        let begun = Instant::now();
        let list = loop {
            let list = get(&http, node, "/v1/buckets").await;
            if list["missing"] == json!([]) {
                break list;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{list}");
        };
        let mut expected = [&at_a, &at_b];
        expected.sort();
        let listed =
            |name: &String| json!({"bucket": name, "held": 1, "waiting": 0, "owners": 0, "assigned": 0});
        assert_eq!(list["buckets"], json!(expected.map(listed)));
        let first = get(&http, node, "/v1/buckets?limit=1").await;
        assert_eq!(
            (&first["buckets"][0]["bucket"], &first["next"]),
            (&json!(expected[0]), &json!(expected[0]))
        );
        let second = get(&http, node, &format!("/v1/buckets?limit=1&cursor={}", expected[0])).await;
        assert_eq!((&second["buckets"][0]["bucket"], &second["next"]), (&json!(expected[1]), &Value::Null));
        for bucket in expected {
            let overview = get(&http, node, &format!("/v1/buckets/{bucket}/overview")).await;
            assert_eq!((&overview["held"]["web"], &overview["oldest"]["name"]), (&json!(1), &json!("n")));
            let waits = get(&http, node, &format!("/v1/buckets/{bucket}/waits")).await;
            assert_eq!(waits["edges"], json!([]));
            let owners = get(&http, node, &format!("/v1/buckets/{bucket}/owners")).await;
            assert_eq!(owners["owners"], json!([]));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_must_be_silent_lists_none_of_its_buckets_and_names_itself() {
    let (fleet, nodes) = Fleet::of(1);
    let http = Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
    let connection = connect(url(&nodes[0])).await.unwrap();
    let agent = connection.agent("holder").unwrap();
    let _held = agent.locks().request("n").await.unwrap();
    let listed = get(&http, &nodes[0], "/v1/buckets").await;
    assert_eq!((&listed["buckets"][0]["held"], &listed["missing"]), (&json!(1), &json!([])));
    let mut client = fleet.database.connect().await;
    let blocking = client.transaction().await.unwrap();
    blocking.batch_execute("LOCK TABLE lockhouse.nodes IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let begun = Instant::now();
    loop {
        let listed = get(&http, &nodes[0], "/v1/buckets").await;
        if listed["missing"] == json!(["a"]) {
            assert_eq!(listed["buckets"], json!([]));
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{listed}");
    }
}
