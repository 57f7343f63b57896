//! The database fails over to its asynchronous standby, which lacks acknowledged commits.
//!
//! ```text
//!   standby has all    link cut     claim in a new bucket,    primary gone    promotion    new standby
//!   ──────from──────────┼───────────slots are taken────────────┼───────────────at───────────┼──────────▶
//! ```

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use proofs::history::record::What;
use tokio::time::sleep;

use super::Fault;
use crate::chaos::SLOT_LEASE;
use crate::chaos::network::{Cut, DATABASES, NODES};
use crate::chaos::storm::Storm;
use crate::cluster::postgres::Server;
use crate::crash::recorder::now;

/// The longest that a standby may take to have all, or a server to find that the database failed over.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a server of the database keeps of that which must fall into the window.
struct Kept {
    /// Of each slot.
    epochs: Vec<i64>,
    /// Claims in the new bucket, and how far its tokens are reserved.
    claims: i64,
    mark: i64,
}

impl Storm {
    pub(in crate::chaos) fn fail_over(&mut self) -> Result<Fault> {
        let former = self.databases.primary;
        let [primary, standby] = [DATABASES[former], DATABASES[1 - former]];
        let link = [Cut::OneWay(primary, standby), Cut::OneWay(standby, primary)];
        let from = self.standby_has_all()?;
        link.iter().try_for_each(Cut::begin)?;
        let bucket = format!("window-{from}");
        self.runtime.block_on(self.probes.grants_in(&bucket))?;
        let node = self.random.below(NODES.len());
        self.nodes.kill(node)?;
        let is_lacking = self.standby_lacks(&bucket)?;
        let off = Cut::Off(primary);
        let is_stopped = self.random.percent(50);
        if is_stopped {
            self.databases.stop_primary(false)?;
        } else {
            off.begin()?;
        }
        let gone = now();
        std::thread::sleep(self.between(Duration::ZERO, 2 * SLOT_LEASE));
        let at = now();
        self.runtime.block_on(self.databases.standby()?.promote());
        self.databases.standby_is_primary();
        self.nodes.start_node(node)?;
        let above = self.goes_on_above()?;
        let until = at.max(gone + SLOT_LEASE.as_nanos() as u64);
        self.journal.write(at, What::FailedOver { from, until, above });
        if !is_stopped {
            self.databases.standby()?.stop_at_once();
            off.end()?;
        }
        link.iter().try_for_each(Cut::end)?;
        self.databases.add_standby()?;
        let end = if is_stopped { "is stopped" } else { "is cut off" };
        let lost = (at - from) as f64 / 1e9;
        let text = format!(
            "node {} is killed, the primary {end}, and a standby without the last {lost:.1} s takes over",
            NODES[node]
        );
        Ok(Fault { text, has_hit: Some(is_lacking) })
    }
}

impl Storm {
    /// Waits until the standby has all that was acknowledged before an instant; that instant.
    fn standby_has_all(&mut self) -> Result<u64> {
        for _ in 0..2 {
            let from = now();
            if self.runtime.block_on(has_all(self.databases.primary()?))? {
                return Ok(from);
            }
            // It has fallen behind by more than the primary keeps for it.
            self.databases.add_standby()?;
        }
        bail!("a standby does not get what its primary writes within {PATIENCE:?}")
    }

    /// Waits until a slot is taken of which the standby does not know; whether it knows nothing of the claim
    /// in the bucket and of its tokens either.
    fn standby_lacks(&mut self, bucket: &str) -> Result<bool> {
        let begun = Instant::now();
        loop {
            let standby = self.runtime.block_on(Kept::of(self.databases.standby()?, bucket))?;
            let primary = self.runtime.block_on(Kept::of(self.databases.primary()?, bucket))?;
            let mut epochs = primary.epochs.iter().zip(&standby.epochs);
            if epochs.any(|(primary, standby)| primary > standby) {
                return Ok(primary.claims > standby.claims && primary.mark > standby.mark);
            }
            ensure!(begun.elapsed() < 4 * SLOT_LEASE, "no slot of a node that was killed is taken");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a node has found that the database failed over; the token above which the fleet goes on.
    fn goes_on_above(&mut self) -> Result<u64> {
        let begun = Instant::now();
        let generation =
            "SELECT timeline = lockhouse.timeline(), (SELECT max(token_floor) FROM lockhouse.slots)
            FROM lockhouse.fleet";
        let primary = self.databases.primary()?;
        self.runtime.block_on(async {
            let client = primary.connect().await;
            loop {
                let row = client.query_one(generation, &[]).await?;
                if row.get(0) {
                    let above: i64 = row.get(1);
                    return Ok(above.cast_unsigned());
                }
                ensure!(begun.elapsed() < PATIENCE, "no node goes on with the promoted standby");
                sleep(Duration::from_millis(20)).await;
            }
        })
    }
}

/// Waits until the standby of that server has what it has written by now; false if that takes too long.
async fn has_all(primary: &Server) -> Result<bool> {
    let begun = Instant::now();
    let client = primary.connect().await;
    let written: String = client.query_one("SELECT pg_current_wal_flush_lsn()::text", &[]).await?.get(0);
    let has = "SELECT count(*) > 0 FROM pg_stat_replication WHERE flush_lsn >= $1::text::pg_lsn";
    while !client.query_one(has, &[&written]).await?.get::<_, bool>(0) {
        if begun.elapsed() > PATIENCE {
            return Ok(false);
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(true)
}

impl Kept {
    async fn of(server: &Server, bucket: &str) -> Result<Self> {
        let client = server.connect().await;
        let of_bucket = "SELECT count(claims.token), coalesce(max(buckets.mark), 0)
            FROM lockhouse.buckets LEFT JOIN lockhouse.claims ON claims.bucket = buckets.id
            WHERE buckets.bucket = convert_to($1, 'UTF8')";
        let row = client.query_one(of_bucket, &[&bucket]).await?;
        let epochs = client.query("SELECT epoch FROM lockhouse.slots ORDER BY slot", &[]).await?;
        let epochs = epochs.iter().map(|row| row.get(0)).collect();
        Ok(Self { epochs, claims: row.get(0), mark: row.get(1) })
    }
}
