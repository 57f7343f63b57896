//! Requests of agents in one process.

#![allow(clippy::unwrap_used, reason = "tests")]

mod behaviour;

use std::time::Duration;

use behaviour::{World, behaviours};
use lockhouse::{Agent, BucketKey, House, Loss};

struct OneProcess(House);

impl World for OneProcess {
    async fn start() -> Self {
        Self(House::new())
    }

    async fn agent(&self, bucket: &BucketKey, client_id: &str) -> Agent {
        self.0.bucket(bucket.clone()).agent(client_id).unwrap()
    }
}

behaviours!(OneProcess);

#[test]
fn a_longest_hold_survives_the_end_of_the_runtime_it_began_in() {
    let house = House::new();
    let agent = house.bucket("default").agent("a").unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let held = first
        .block_on(async { agent.locks().request("n").max_hold(Duration::from_millis(300)).await.unwrap() });
    drop(first);
    let loss = runtime().block_on(async {
        let _wakes_the_ticker = agent.locks().request("other").await.unwrap();
        held.lost().await
    });
    assert_eq!(loss, Loss::Expired);
}
