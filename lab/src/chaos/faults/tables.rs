//! Faults of single tables and pages of the database, which goes on otherwise.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lockhouse::store::PostgresLook;
use tokio::time::sleep;

use super::Fault;
use crate::chaos::SLOT_LEASE;
use crate::chaos::network::NODES;
use crate::chaos::storm::Storm;

/// The index that each entry of the history goes into.
const INDEX: &str = "history_at_idx";

const LOCK: &str = "BEGIN; LOCK TABLE lockhouse.nodes, lockhouse.slots IN ACCESS EXCLUSIVE MODE";

/// The statements of nodes that wait for a lock.
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockhouse' AND wait_event_type = 'Lock'";

/// Reads every entry of the index.
const SCAN: &str = "SET enable_seqscan = off; SELECT count(*) FROM lockhouse.history WHERE at > 0";

impl Storm {
    /// A transaction of another program locks the tables that every commit needs. Each node has as few
    /// statements waiting as it has connections, however long that lasts.
    pub(in crate::chaos) fn lock_tables(&mut self) -> Result<Fault> {
        let length = self.between(SLOT_LEASE / 2, 4 * SLOT_LEASE);
        let primary = self.databases.primary()?;
        let most = self.runtime.block_on(async {
            let (locker, looker) = (primary.connect().await, primary.connect().await);
            locker.batch_execute(LOCK).await?;
            let (begun, mut most) = (Instant::now(), 0);
            while begun.elapsed() < length {
                most = most.max(looker.query_one(WAITING, &[]).await?.get::<_, i64>(0));
                sleep(Duration::from_millis(50)).await;
            }
            anyhow::Ok(most)
        })?;
        let bound = NODES.len() as i64 * i64::from(PostgresLook::CONNECTIONS_OF_NODE);
        ensure!(most <= bound, "{most} statements wait for the lock, of nodes with {bound} connections");
        Ok(Fault { text: format!("tables are locked, for which {most} statements wait"), has_hit: None })
    }

    /// A page of the history cannot be read. All goes on beside it, before the index is made anew.
    pub(in crate::chaos) fn damage_page(&mut self) -> Result<Fault> {
        let primary = self.databases.primary()?;
        let path: String = self.runtime.block_on(async {
            let client = primary.connect().await;
            client.batch_execute("CHECKPOINT").await?;
            let sql = format!("SELECT pg_relation_filepath('lockhouse.{INDEX}')");
            anyhow::Ok(client.query_one(&sql, &[]).await?.get(0))
        })?;
        self.databases.spoil_primary(&path)?;
        let after = self.goes_on(Instant::now())?;
        let primary = self.databases.primary()?;
        let is_damaged = self.runtime.block_on(async {
            let client = primary.connect().await;
            let is_damaged = client.batch_execute(SCAN).await.is_err();
            client.batch_execute(&format!("REINDEX INDEX lockhouse.{INDEX}")).await?;
            anyhow::Ok(is_damaged)
        })?;
        let text = format!("an index of the history is damaged, and all went on after {after:.1} s");
        Ok(Fault { text, has_hit: Some(is_damaged) })
    }
}
