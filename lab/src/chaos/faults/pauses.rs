//! A node stands still for less than its slot lease, again and again, of which nothing may come.
//!
//! ```text
//!   counter of the node is written    stop          go on    it is written again
//!   ───────────┼───────────────────────┼──────────────┼───────────┼──────────▶
//!              └────────── stillness, as another node may see it ─┘
//! ```

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lockhouse::LockGuard;
use lockhouse::fleet::owner_of;
use lockhouse::remote::{Connect, Connection, connect};
use lockhouse::store::Slot;
use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Fault;
use crate::chaos::SLOT_LEASE;
use crate::chaos::network::NODES;
use crate::chaos::nodes::urls;
use crate::chaos::places::BASES;
use crate::chaos::storm::Storm;
use crate::cluster::postgres::Server;

/// Stops in one fault.
const STOPS: usize = 4;

/// Others may declare a node dead whose counter has stood still for longer, with clocks that differ a little.
const LONGEST_STILLNESS: Duration = Duration::from_millis(SLOT_LEASE.as_millis() as u64 * 97 / 100);

/// The longest that slots may take to come to rest after a fault, or a node to write its counter.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long no slot has moved once they have come to rest.
const REST: Duration = SLOT_LEASE;

/// The pause between two looks at the tables of the fleet.
const LOOK: Duration = Duration::from_millis(5);

/// How long a good-bye of ours is waited for.
const GOOD_BYE: Duration = Duration::from_secs(1);

const COUNTER: &str = "SELECT counter FROM lockhouse.nodes WHERE label = convert_to($1, 'UTF8')";

/// The epoch of each slot, which grows with each move, and the node that has it.
pub(in crate::chaos) type Moves = Vec<(i64, Option<String>)>;

async fn moves(database: &Server) -> Result<Moves> {
    let sql = "SELECT slots.epoch, convert_from(nodes.label, 'UTF8')
        FROM lockhouse.slots LEFT JOIN lockhouse.nodes ON nodes.incarnation = slots.owner
        ORDER BY slots.slot";
    let rows = database.connect().await.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// A web lock that no client breaks or steals, so that it is lost by a fault only.
struct KeptLock {
    connection: Connection,
    lock: LockGuard,
    bucket: String,
}

/// A lock in each slot.
async fn keep_locks(key: &str) -> Result<Vec<KeptLock>> {
    let mut kept = Vec::new();
    for bucket in &*BASES {
        let mut urls = urls().into_iter();
        let connecting = connect(urls.next().context("there are nodes")?).bucket(bucket).key(key);
        let connection = urls.fold(connecting, Connect::or).await?;
        let agent = connection.agent("keeper of pauses")?;
        let lock = agent.locks().request("kept during pauses").timeout(PATIENCE).await?;
        kept.push(KeptLock { connection, lock, bucket: bucket.clone() });
    }
    Ok(kept)
}

impl KeptLock {
    fn loss(&self) -> Option<String> {
        self.lock.loss().map(|loss| format!("that in {} ({loss})", self.bucket))
    }

    async fn release(self) {
        // Whether it arrives or not: nothing else wants the name.
        _ = timeout(GOOD_BYE, self.lock.release()).await;
        _ = timeout(GOOD_BYE, self.connection.close()).await;
    }
}

impl Storm {
    /// No slot moves for a pause that is shorter than the slot lease, and no web lock is lost by it.
    pub(in crate::chaos) fn pause_shortly(&mut self) -> Result<Fault> {
        let before = self.come_to_rest()?;
        let kept = self.runtime.block_on(keep_locks(&self.key))?;
        let mut lengths = Vec::new();
        let mut all_are_short = true;
        for _ in 0..STOPS {
            let place = self.random.below(NODES.len());
            let length = self.between(SLOT_LEASE * 2 / 5, SLOT_LEASE * 9 / 10);
            let stillness = self.stand_still(place, length)?;
            all_are_short &= stillness <= LONGEST_STILLNESS;
            lengths.push(format!("{} for {} ms", NODES[place], stillness.as_millis()));
            thread::sleep(SLOT_LEASE / 4);
        }
        // A slot would be asked for within two polls, and a client learns of a loss within its lease.
        thread::sleep(2 * SLOT_LEASE);
        let after = self.moves()?;
        let lost: Vec<String> = kept.iter().filter_map(KeptLock::loss).collect();
        self.runtime.block_on(async {
            kept.into_iter().map(KeptLock::release).collect::<JoinSet<_>>().join_all().await
        });
        let text = format!("nodes stand still: {}", lengths.join(", "));
        if all_are_short {
            ensure!(after == before, "{text}, and slots have moved: {before:?} became {after:?}");
            ensure!(lost.is_empty(), "{text}, and web locks were lost: {}", lost.join(", "));
        }
        Ok(Fault { text, has_hit: Some(all_are_short) })
    }

    /// Waits until each slot is at the node that it is for, so that none moves any more.
    pub(in crate::chaos) fn come_to_rest(&mut self) -> Result<Moves> {
        let begun = Instant::now();
        loop {
            let before = self.moves()?;
            let is_at_home = |(slot, (_, owner)): (u16, &(i64, Option<String>))| {
                owner.as_deref() == owner_of(Slot::new(slot), &NODES)
            };
            if (0..).zip(&before).all(is_at_home) {
                thread::sleep(REST);
                if self.moves()? == before {
                    return Ok(before);
                }
            }
            ensure!(begun.elapsed() < PATIENCE, "the slots do not come to rest: {before:?}");
            thread::sleep(20 * LOOK);
        }
    }

    pub(in crate::chaos) fn moves(&mut self) -> Result<Moves> {
        self.runtime.block_on(moves(self.databases.primary()?))
    }

    /// Stops a node right after it has written its counter; the longest that another node can have seen it
    /// unchanged.
    fn stand_still(&mut self, place: usize, length: Duration) -> Result<Duration> {
        let primary = self.databases.primary()?;
        self.runtime.block_on(async {
            let client = primary.connect().await;
            let counter = client.prepare(COUNTER).await?;
            let begun = Instant::now();
            let read =
                async || anyhow::Ok(client.query_one(&counter, &[&NODES[place]]).await?.get::<_, i64>(0));
            let first = read().await?;
            // The last look that found the value before: no node has seen the next one for longer.
            let mut since = begun;
            loop {
                let looked = Instant::now();
                if read().await? != first {
                    break;
                }
                since = looked;
                ensure!(begun.elapsed() < PATIENCE, "the node {} writes nothing", NODES[place]);
                sleep(LOOK).await;
            }
            self.nodes.signal(place, Signal::STOP)?;
            let stopped = Instant::now();
            // What it had under way still arrives.
            sleep(length / 4).await;
            let last = read().await?;
            sleep(length.saturating_sub(stopped.elapsed())).await;
            self.nodes.signal(place, Signal::CONT)?;
            while read().await? == last {
                ensure!(begun.elapsed() < 2 * PATIENCE, "the node {} writes nothing", NODES[place]);
                sleep(LOOK).await;
            }
            Ok(since.elapsed())
        })
    }
}
