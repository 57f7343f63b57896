//! A node that is drained while clients work: nothing is lost, and nothing takes long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lockhouse::remote::{Connect, connect};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::failover::{Fleet, is_kept, millis};

/// Clients that lock and release, and as many that claim and release.
const CLIENTS: usize = 12;

/// How long clients work before and after the drain, and between two operations of one of them.
const AROUND: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// The longest that 99 of 100 operations may take.
const LIMIT: Duration = Duration::from_secs(1);

pub(super) async fn run(fleet: &Fleet) -> Result<Value> {
    let urls: Vec<String> = fleet.nodes.nodes().map(|node| node.url.clone()).collect();
    let connecting = |number: usize| -> Connect {
        let turn = |at: usize| urls[(number + at) % urls.len()].clone();
        connect(turn(0)).or(turn(1)).or(turn(2)).bucket(format!("drain-{number}"))
    };
    let mut held = Vec::new();
    for number in 0..CLIENTS {
        let connection = connecting(number).await?;
        let agent = connection.agent("holder")?;
        let lock = agent.locks().request("held").await?;
        held.push((lock.fencing_token().get(), lock, agent, connection));
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let mut working = JoinSet::new();
    for number in 0..CLIENTS {
        working.spawn(lock(connecting(number), is_over.clone()));
        working.spawn(claim(connecting(number), is_over.clone()));
    }
    sleep(AROUND).await;
    let node = fleet.nodes.nodes().last().context("there are nodes")?;
    let begun = Instant::now();
    let answer = fleet
        .http
        .post(format!("{}/v1/cluster/drain", node.url))
        .header("content-type", "application/json")
        .body("{}")
        .send()
        .await?;
    ensure!(answer.status().is_success(), "the drain is answered {}", answer.status());
    fleet.settled(2).await?;
    let drained = begun.elapsed();
    sleep(AROUND).await;
    is_over.store(true, Ordering::Relaxed);
    let mut took = Vec::new();
    while let Some(done) = working.join_next().await {
        took.extend(done??);
    }
    took.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| took[(took.len() - 1) * percent / 100]);
    let longest = took.last().copied().unwrap_or_default();
    println!(
        "drain of {} in {drained:.2?} under load: {} operations, 0 failed, p50 {p50:.2?}, p99 {p99:.2?}, longest {longest:.2?}",
        node.label,
        took.len(),
    );
    for (token, lock, ..) in &held {
        is_kept(lock, *token)?;
    }
    ensure!(p99 <= LIMIT, "the operations took too long");
    let [drained, p50, p99, longest] = [drained, p50, p99, longest].map(millis);
    Ok(json!({"tookMs": drained, "operations": took.len(), "p50Ms": p50, "p99Ms": p99, "longestMs": longest}))
}

/// Locks and releases until it is over; how long each pair took.
async fn lock(connecting: Connect, is_over: Arc<AtomicBool>) -> Result<Vec<Duration>> {
    let connection = connecting.await?;
    let agent = connection.agent("worker")?;
    let mut took = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let lock = agent.locks().request("worked").await?;
        lock.release().await.map_err(|loss| anyhow::anyhow!("a lock was lost: {loss:?}"))?;
        took.push(begun.elapsed());
        sleep(PAUSE).await;
    }
    Ok(took)
}

/// Claims and releases until it is over; how long each pair took.
async fn claim(connecting: Connect, is_over: Arc<AtomicBool>) -> Result<Vec<Duration>> {
    let connection = connecting.await?;
    let claims = connection.claims();
    let mut took = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let claim = claims.claim("claimed", "worker", Duration::from_secs(60)).await?;
        claim.release().await?;
        took.push(begun.elapsed());
        sleep(PAUSE).await;
    }
    Ok(took)
}
