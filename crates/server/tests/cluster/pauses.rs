//! Nodes that stand still for less than their slot lease, or for longer, with the default slot lease.

use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::cluster::fleet::{Fleet, until_settled, url};
use crate::running::{Running, lockhouse, run};

const SLOT_LEASE: Duration = Duration::from_secs(3);

/// Nodes with these labels, which have settled.
pub(crate) fn nodes<const COUNT: usize>(fleet: &Fleet, labels: [&str; COUNT]) -> [Running; COUNT] {
    let nodes = labels.map(|label| {
        let mut command = fleet.command(label, &[]);
        command.env("LOCKHOUSE_CLUSTER_SLOT_LEASE", "3s").env("LOCKHOUSE_LEASE", "10s");
        Running::of(command)
    });
    fleet.settled(&nodes.each_ref());
    nodes
}

/// The epoch of each slot, which grows with each move.
pub(crate) fn epochs(view: &Value) -> Vec<u64> {
    view["slots"].as_array().unwrap().iter().map(|slot| slot["epoch"].as_u64().unwrap()).collect()
}

#[test]
fn a_pause_below_the_slot_lease_moves_no_slot() {
    let fleet = Fleet::new();
    let [a, b, _c] = nodes(&fleet, ["a", "b", "c"]);
    let before = epochs(&fleet.view(&a));
    b.stand_still();
    std::thread::sleep(SLOT_LEASE * 2 / 3);
    b.go_on();
    // A slot would be asked for within two polls, and four are asked for in a second.
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        assert_eq!(epochs(&fleet.view(&a)), before);
    }
    assert_eq!(epochs(&until_settled(3, || fleet.view(&a))), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_while_the_owner_hangs_is_served_once_it_is_declared_dead() {
    let fleet = Fleet::new();
    let [a, b, c] = nodes(&fleet, ["a", "b", "c"]);
    let bucket = fleet.bucket_at(&a, "b");
    let urls = [&a, &b, &c].map(url);
    b.stand_still();
    // A call that the owner has got, and will not answer.
    let calling = tokio::spawn(call(url(&a), bucket.clone()));
    let begun = Instant::now();
    let mut command = lockhouse(
        fleet.folder.path(),
        &[
            "run", "job", "--bucket", &bucket, "--url", &urls[0], "--url", &urls[1], "--url", &urls[2], "--",
            "true",
        ],
    );
    let (code, _, error) = spawn_blocking(move || run(&mut command)).await.unwrap();
    assert_eq!(code, Some(0), "after {:?}: {error}", begun.elapsed());
    let (status, answer, took) = timeout(Duration::from_secs(20), calling).await.unwrap().unwrap();
    b.go_on();
    assert_eq!(
        (status, &answer["code"]),
        (StatusCode::GATEWAY_TIMEOUT, &json!("outcome_unknown")),
        "{answer}"
    );
    assert!(took < SLOT_LEASE + Duration::from_secs(2), "{took:?}");
}

async fn call(node: String, bucket: String) -> (StatusCode, Value, Duration) {
    let begun = Instant::now();
    let body = json!({"resource": "seat", "claimant": "ada", "ttlMs": 60_000});
    let request = Client::new().post(format!("{node}/v1/buckets/{bucket}/claims"));
    let request = request.header("content-type", "application/json").body(body.to_string());
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap(), begun.elapsed())
}
