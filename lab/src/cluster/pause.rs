//! A node that stands still in the midst of grants, and goes on after others have taken its slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lockhouse::remote::{Connect, Connection, connect};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::failover::{Fleet, PATIENCE, is_kept, millis};

/// Clients that lock and release the same name in each of the buckets of the node.
const CLIENTS_OF_EACH: usize = 4;
const BUCKETS: usize = 3;

/// How long clients work before and after the pause, and how long each of them holds a lock.
const AROUND: Duration = Duration::from_secs(3);
const HELD_FOR: Duration = Duration::from_millis(10);

/// The lock of a bucket, as its clients believe in it.
#[derive(Debug, Default)]
struct Believed {
    is_held: AtomicBool,
    last_token: AtomicU64,
    grants: AtomicU64,
}

/// Stops a node for so long, and then lets it go on.
pub(super) async fn run(fleet: &Fleet, length: Duration) -> Result<Value> {
    fleet.settled(3).await?;
    let node = fleet.nodes.nodes().next().context("there are nodes")?;
    let others: Vec<String> = fleet.nodes.nodes().skip(1).map(|node| node.url.clone()).collect();
    let names = fleet.buckets("pause", &node.label, BUCKETS + 2).await?;
    let [worked @ .., kept, left] = &names[..] else { anyhow::bail!("too few buckets") };
    let (is_over, mut working) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    let mut believed = Vec::new();
    for bucket in worked {
        let lock = Arc::new(Believed::default());
        for number in 0..CLIENTS_OF_EACH {
            // Half of them come to the node that has the bucket.
            let first = if number % 2 == 0 { &node.url } else { &others[0] };
            let connecting = connect(&**first).or(&*others[0]).or(&*others[1]).bucket(bucket);
            working.spawn(work(connecting, lock.clone(), is_over.clone()));
        }
        believed.push(lock);
    }
    // One holder comes back through another node, and one knows no other.
    let (_keeper, keeper) = holder(connect(&*node.url).or(&*others[0]).bucket(kept)).await?;
    let held = keeper.locks().request("n").await?;
    let token = held.fencing_token().get();
    let (_leaver, leaver) = holder(connect(&*node.url).bucket(left)).await?;
    let lost = leaver.locks().request("n").await?;
    let (_waiting, waiter) = holder(connect(&*others[0]).bucket(left)).await?;
    let waiting =
        tokio::spawn(async move { waiter.locks().request("n").await.map(|lock| (lock, Instant::now())) });
    sleep(AROUND).await;

    let begun = Instant::now();
    node.signal(Signal::STOP)?;
    lost.lost().await;
    let known = begun.elapsed();
    let (next, at) = timeout(PATIENCE, waiting).await.context("the lock is not granted")???;
    let granted = at.duration_since(begun);
    ensure!(
        known <= granted,
        "a holder learnt of its loss after {known:.2?}, but the lock was granted after {granted:.2?}"
    );
    is_kept(&held, token)?;
    sleep(length.saturating_sub(begun.elapsed())).await;
    node.signal(Signal::CONT)?;
    sleep(AROUND).await;
    is_kept(&held, token)?;
    is_kept(&next, next.fencing_token().get())?;
    fleet.settled(3).await?;
    is_over.store(true, Ordering::Relaxed);
    while let Some(done) = working.join_next().await {
        done??;
    }
    let grants: u64 = believed.iter().map(|lock| lock.grants.load(Ordering::Relaxed)).sum();
    ensure!(grants > 0, "nothing was granted");
    println!(
        "pause of {} for {:.1?} in the midst of {grants} grants: a lost lock known after {known:.2?} and granted \
         after {granted:.2?}, 0 held twice",
        node.label, length,
    );
    let [known, granted] = [known, granted].map(millis);
    Ok(json!({"grants": grants, "lossKnownAfterMs": known, "grantedAfterMs": granted}))
}

async fn holder(connecting: Connect) -> Result<(Connection, lockhouse::Agent)> {
    let connection = connecting.await?;
    let agent = connection.agent("holder")?;
    Ok((connection, agent))
}

/// Locks and releases until it is over. A lock that is lost is believed in no longer than its loss is known.
async fn work(connecting: Connect, believed: Arc<Believed>, is_over: Arc<AtomicBool>) -> Result<()> {
    let (_connection, agent) = holder(connecting).await?;
    while !is_over.load(Ordering::Relaxed) {
        let lock = agent.locks().request("worked").await?;
        let token = lock.fencing_token().get();
        ensure!(
            !believed.is_held.swap(true, Ordering::SeqCst),
            "a lock is held twice, once with token {token}"
        );
        let last = believed.last_token.swap(token, Ordering::SeqCst);
        ensure!(last < token, "token {token} was granted after {last}");
        believed.grants.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            biased;
            _ = lock.lost() => {}
            () = sleep(HELD_FOR) => {}
        }
        believed.is_held.store(false, Ordering::SeqCst);
        // One that is lost has nothing to release.
        _ = lock.release().await;
    }
    Ok(())
}
