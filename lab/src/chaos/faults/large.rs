//! A node is killed once without and once with a large table in one of its slots: the other slots go on as
//! soon, as the rows of one slot hold up no other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use lockhouse::store::{Scope, Slot};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;

use super::Fault;
use crate::chaos::SLOT_LEASE;
use crate::chaos::network::NODES;
use crate::chaos::nodes::urls;
use crate::chaos::places::SLOTS;
use crate::chaos::storm::Storm;
use crate::crash::http::{CallReply, HttpCaller, With};
use crate::crash::recorder::now;

/// How much longer than without the large table slots may take.
const GRACE: Duration = Duration::from_secs(2);

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(40);

/// The same of the large slot itself, whose rows are read one after the other; as long again for each
/// million.
const LOADED: Duration = Duration::from_secs(120);
const MILLION: u32 = 1_000_000;

/// Copies the one assignment of a bucket.
const GROW: &str = "INSERT INTO lockhouse.assignments (bucket, name, claimant, token, since, seal)
    SELECT a.bucket, a.name || convert_to(n::text, 'UTF8'), a.claimant, a.token, a.since, a.seal
    FROM lockhouse.assignments a JOIN lockhouse.buckets b ON b.id = a.bucket, generate_series(1, $2::bigint) n
    WHERE b.bucket = convert_to($1, 'UTF8')";

/// A node that serves the slot still knows them, which does no harm: no client asks for them.
const SHRINK: &str = "DELETE FROM lockhouse.assignments a USING lockhouse.buckets b
    WHERE b.id = a.bucket AND b.bucket = convert_to($1, 'UTF8')";

impl Storm {
    pub(in crate::chaos) fn kill_beside_a_large_slot(&mut self) -> Result<Fault> {
        let owners = self.come_to_rest()?;
        let slot = self.random.below(usize::from(SLOTS)) as u16;
        let owner = owners[usize::from(slot)].1.as_deref();
        let node = NODES.iter().position(|node| Some(*node) == owner).context("each slot has an owner")?;
        let usual = self.kill_until_others_go_on(node, slot)?;
        self.nodes.start_node(node)?;
        self.come_to_rest()?;
        let bucket = bucket_in("large", slot);
        let http = HttpCaller::new(&urls(), Some(&self.key))?.at(node + 1);
        self.runtime.block_on(assign(&http, &bucket))?;
        let rows = i64::from(self.large_rows);
        let grown = self.execute(GROW, &[&bucket, &rows])?;
        self.come_to_rest()?;
        let took = self.kill_until_others_go_on(node, slot)?;
        let patience = LOADED * (1 + self.large_rows / MILLION);
        let begun = Instant::now();
        self.runtime
            .block_on(async { timeout(patience, until_claimed(http, bucket_in("beside", slot))).await })
            .context("the large slot is not loaded")?;
        let loaded = begun.elapsed();
        // So that it is loaded only once, however slow the machine is.
        self.execute(SHRINK, &[&bucket])?;
        self.nodes.start_node(node)?;
        let text = format!(
            "node {} is killed, of which slot {slot} has {grown} assignments; the others go on after {:.1} s instead of {:.1} s, that one {:.1} s later",
            NODES[node],
            took.as_secs_f64(),
            usual.as_secs_f64(),
            loaded.as_secs_f64(),
        );
        ensure!(took <= usual + SLOT_LEASE + GRACE, "{text}");
        Ok(Fault { text, has_hit: Some(grown == rows.cast_unsigned()) })
    }

    fn execute(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64> {
        let primary = self.databases.primary()?;
        self.runtime.block_on(async { Ok(primary.connect().await.execute(sql, params).await?) })
    }

    /// Kills a node, and waits until all slots but one grant claims; how long that took.
    fn kill_until_others_go_on(&mut self, node: usize, but: u16) -> Result<Duration> {
        self.nodes.kill(node)?;
        let begun = Instant::now();
        let key = self.key.clone();
        self.runtime.block_on(async {
            let mut claiming = JoinSet::new();
            for slot in (0..SLOTS).filter(|slot| *slot != but) {
                let http = HttpCaller::new(&urls(), Some(&key))?.at(node + 1);
                claiming.spawn(async move {
                    let claimed = timeout(PATIENCE, until_claimed(http, bucket_in("beside", slot))).await;
                    claimed.map_err(|_| {
                        anyhow!("slot {slot} grants nothing beside a large one for {PATIENCE:?}")
                    })
                });
            }
            while let Some(claimed) = claiming.join_next().await {
                claimed??;
            }
            anyhow::Ok(())
        })?;
        Ok(begun.elapsed())
    }
}

/// A bucket that no other client uses.
fn bucket_in(prefix: &str, slot: u16) -> String {
    let at = now();
    let mut names = (0..).map(|number| format!("{prefix}-{at}-{number}"));
    let is_in = |name: &String| Slot::of(&Scope::new("", name.as_str()), SLOTS).get() == slot;
    names.find(is_in).unwrap_or_default()
}

async fn until_claimed(http: HttpCaller, bucket: String) {
    for number in 0.. {
        let body = json!({"resource": format!("seat {number}"), "claimant": "beside", "ttlMs": 10_000});
        let reply = http.post(&bucket, "claims", With { body: Some(body), ..With::default() }).await;
        if matches!(reply, CallReply::Done(_)) {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Makes a bucket with one assignment.
async fn assign(http: &HttpCaller, bucket: &str) -> Result<()> {
    let body = json!({"resource": "seat", "claimant": "large", "ttlMs": 60_000});
    let reply = http.post(bucket, "claims", With { body: Some(body), ..With::default() }).await;
    let CallReply::Done(claimed) = reply else { return Err(anyhow!("no claim in {bucket}: {reply:?}")) };
    let body = json!({"resource": "seat", "token": claimed["token"]});
    let reply = http.post(bucket, "claims/finalize", With { body: Some(body), ..With::default() }).await;
    ensure!(matches!(reply, CallReply::Done(_)), "no assignment in {bucket}: {reply:?}");
    Ok(())
}
