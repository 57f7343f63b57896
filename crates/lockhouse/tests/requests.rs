//! Requests of agents in one process.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use lockhouse::{Agent, BreakError, BucketKey, House, Limits, Loss};

use crate::behaviour::{World, behaviours};

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

async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn a_broken_lock_ends_for_its_holder_alone_and_the_next_is_granted() {
    let house = House::new();
    let bucket = house.bucket("default");
    let [a, b, c] = ["a", "b", "c"].map(|name| bucket.agent(name).unwrap());
    let shared =
        [a.locks().request("n").shared().await.unwrap(), b.locks().request("n").shared().await.unwrap()];
    let mut waiting = pin!(c.locks().request("n").into_future());
    assert!(is_pending(waiting.as_mut()).await);
    let [first, second] = [shared[0].fencing_token(), shared[1].fencing_token()];
    let broken = bucket.break_hold(shared[0].name(), first, "ops", Some("it hangs")).await.unwrap().unwrap();
    assert_eq!(broken.client_id, "a");
    assert_eq!(shared[0].loss(), Some(Loss::Broken { reason: Some("it hangs".into()) }));
    assert_eq!(shared[1].loss(), None);
    assert!(is_pending(waiting.as_mut()).await);
    assert_eq!(bucket.break_hold(shared[0].name(), first, "ops", None).await.unwrap(), None);
    bucket.break_hold(shared[1].name(), second, "ops", None).await.unwrap().unwrap();
    assert_eq!(shared[1].lost().await, Loss::Broken { reason: None });
    let last = waiting.await.unwrap();
    let [one, _] = shared;
    assert_eq!(one.release().await, Err(Loss::Broken { reason: Some("it hangs".into()) }));
    assert_eq!(last.loss(), None);
    let long = "x".repeat(Limits::DEFAULT.metadata_bytes + 1);
    let refused = bucket.break_hold(last.name(), last.fencing_token(), "ops", Some(&long)).await;
    assert!(matches!(refused, Err(BreakError::Quota(_))), "{refused:?}");
    assert_eq!(last.loss(), None);
}
