//! The store goes away while all nodes live: nothing durable is acknowledged, the nodes fall silent, and all
//! goes on by itself when it is back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lockhouse::remote::connect;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::failover::{Fleet, PATIENCE, millis};

/// Calls go to each of so many buckets.
const BUCKETS: usize = 8;

/// How long a Web Lock is waited for that may not be granted.
const REFUSAL: Duration = Duration::from_secs(2);

/// Stops the database for so long, and starts it again.
pub(super) async fn run(fleet: &mut Fleet, length: Duration, slot_lease: Duration) -> Result<Value> {
    fleet.settled(3).await?;
    let before = places(&fleet.view().await?)?;
    let buckets: Vec<String> = (0..BUCKETS).map(|number| format!("away-{number}")).collect();
    for bucket in &buckets {
        let (status, code) = claim(fleet, bucket).await?;
        ensure!(status == 201, "a claim is answered {status} {code} before");
    }
    let url = fleet.nodes.nodes().next().context("there are nodes")?.url.clone();
    let agent = connect(&*url).bucket("away-locks").await?.agent("away")?;
    // What a bucket has to keep before its first grant is kept.
    drop(agent.locks().request("first").await?);
    let begun = Instant::now();
    fleet.nodes.stop_database();
    // The last commit was confirmed before.
    let mut granted = 0_u32;
    while begun.elapsed() < slot_lease / 2 {
        let lock = timeout(slot_lease / 2, agent.locks().request(&*format!("n-{granted}"))).await;
        match lock {
            Ok(lock) => _ = lock?.release().await,
            Err(_) => break,
        }
        granted += 1;
    }
    let mut refused = 0_u32;
    let mut in_silence = 0_u32;
    while begun.elapsed() < length {
        // Longer than the slot lease after the last commit every node is mute, and knows that the store is
        // away.
        let is_known = begun.elapsed() > 2 * slot_lease;
        for bucket in &buckets {
            match claim(fleet, bucket).await? {
                (503, code) if code == "unavailable" => refused += 1,
                (503 | 504, _) if !is_known => refused += 1,
                (status, code) => bail!("a claim is answered {status} {code} while the store is away"),
            }
        }
        if is_known {
            let asked = connect(&*url).bucket("away-locks").into_future();
            ensure!(timeout(REFUSAL, asked).await.is_err(), "a mute node has welcomed a client");
            in_silence += 1;
        }
    }
    fleet.nodes.start_database();
    let back = Instant::now();
    while claim(fleet, &buckets[0]).await?.0 != 201 {
        ensure!(back.elapsed() < PATIENCE, "nothing can be claimed after the store is back");
        sleep(Duration::from_millis(20)).await;
    }
    let recovered = back.elapsed();
    fleet.settled(3).await?;
    let after = places(&fleet.view().await?)?;
    ensure!(before == after, "slots have moved: {before:?}, then {after:?}");
    ensure!(
        granted > 0 && refused > 0 && in_silence > 0,
        "{granted}, {refused}, {in_silence}: too little was tried"
    );
    println!(
        "store away for {:.1?}: {granted} Web Locks in the first half of the slot lease and 0 after it, {refused} claims \
         refused and 0 acknowledged, claims again {recovered:.2?} after its start, 0 slots moved",
        back.duration_since(begun),
    );
    let recovered = millis(recovered);
    Ok(json!({"webLocks": granted, "claimsRefused": refused, "claimsAgainAfterMs": recovered}))
}

/// The status of a claim of a resource of its own, and the code of its refusal.
async fn claim(fleet: &Fleet, bucket: &str) -> Result<(u16, String)> {
    let url = &fleet.nodes.nodes().last().context("there are nodes")?.url;
    let body = json!({"resource": format!("{:?}", Instant::now()), "claimant": "away"}).to_string();
    let claim = fleet.http.post(format!("{url}/v1/buckets/{bucket}/claims"));
    let answer = claim.header("content-type", "application/json").body(body).send().await?;
    let (status, text) = (answer.status().as_u16(), answer.text().await?);
    let mut code = String::new();
    if status >= 400 {
        let problem: Value = serde_json::from_str(&text)?;
        problem["code"].as_str().unwrap_or_default().clone_into(&mut code);
        let codes = ["unavailable", "outcome_unknown", "moving"];
        ensure!(codes.contains(&&*code), "a claim is answered {status} {code}");
    }
    Ok((status, code))
}

/// The owner and the epoch of each slot.
fn places(view: &Value) -> Result<Vec<(Value, Value)>> {
    let slots = view["slots"].as_array().context("it has slots")?;
    Ok(slots.iter().map(|slot| (slot["node"].clone(), slot["epoch"].clone())).collect())
}
