//! Callers with large calls beside others, on nodes over one database.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockhouse::Mode;
use lockhouse::core::{Name, NameBuf};
use lockhouse::remote::{Connection, connect};
use lockhouse::store::{Scope, Slot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cluster::fleet::{Fleet, SLOTS, url};
use crate::cluster::pauses::{epochs, nodes};
use crate::running::Running;

/// The names of one call.
const NAMES: usize = 60;
/// The callers of each of the two noisy buckets.
const CALLERS: usize = 75;
/// The quiet buckets.
const QUIET: usize = 12;
/// The claims that each quiet bucket makes, one after the other.
const CLAIMS: usize = 20;

/// Locks and unlocks many names without a pause.
async fn be_noisy(connection: Connection, caller: usize) {
    let owner = connection.owners().open(format!("caller {caller}"), Duration::from_secs(600)).await.unwrap();
    let names: Vec<NameBuf> =
        (0..NAMES).map(|name| NameBuf::new(&format!("{caller}/{name}")).unwrap()).collect();
    let locks: Vec<(Name<'_>, Mode)> = names.iter().map(|name| (name.as_name(), Mode::Exclusive)).collect();
    loop {
        owner.lock_names(&locks, None).await.unwrap();
        owner.unlock_all().await.unwrap();
    }
}

/// The median of the times that claims take, one after the other.
async fn median_of_claims(connection: &Connection, prefix: &str) -> Duration {
    let mut times = Vec::new();
    for number in 0..CLAIMS {
        let begun = Instant::now();
        let name = format!("{prefix}/{number}");
        connection.claims().claim(name.as_str(), "ada", Duration::from_secs(60)).await.unwrap();
        times.push(begun.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    times.sort_unstable();
    times[CLAIMS / 2]
}

/// The worst median of all quiet buckets.
async fn worst_median(quiet: &[Connection], prefix: &str) -> Duration {
    let claims = quiet.iter().map(|connection| median_of_claims(connection, prefix));
    join_all(claims).await.into_iter().max().unwrap()
}

async fn to(node: &Running, bucket: &str) -> Connection {
    connect(url(node)).bucket(bucket).timeout(Duration::from_secs(60)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn noisy_buckets_neither_silence_their_node_nor_make_others_wait() {
    let fleet = Fleet::new();
    let nodes = nodes(&fleet, ["a", "b"]);
    let view = fleet.view(&nodes[0]);
    let at_first = |bucket: &String| fleet.is_at_in(&view, bucket, "a");
    // Each in a slot of its own.
    let mut slots = HashSet::new();
    let buckets = (0..).map(|number| format!("bucket-{number}"));
    let buckets = buckets.filter(|bucket| slots.insert(Slot::of(&Scope::new("", bucket.as_str()), SLOTS)));
    let (first, second): (Vec<_>, Vec<_>) = buckets.take(SLOTS.into()).partition(at_first);
    let mut quiet = Vec::new();
    for bucket in first[2..].iter().chain(&second).take(QUIET) {
        quiet.push(to(&nodes[0], bucket).await);
    }
    let alone = worst_median(&quiet, "alone").await;
    let mut noise = JoinSet::new();
    for bucket in &first[..2] {
        for caller in 0..CALLERS {
            let connection = to(&nodes[0], bucket).await;
            noise.spawn(be_noisy(connection, caller));
        }
    }
    let beside = worst_median(&quiet, "beside").await;
    println!("the worst median of a quiet bucket: {alone:?} alone, {beside:?} beside the noise");
    assert_eq!(epochs(&fleet.view(&nodes[0])), epochs(&view), "a slot has moved");
    assert!(noise.try_join_next().is_none(), "a noisy caller has ended");
    assert!(beside < Duration::from_millis(750), "{beside:?}");
}
