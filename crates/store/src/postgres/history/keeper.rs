//! The upkeep of the history, apart from all commits: a damaged history keeps none of them from being kept.
//!
//! ```text
//!   commit ──▶ rows: how many to keep, or none while the history is damaged
//!          ──▶ after_commit ──▶ a task of its own: prune_history until little is left
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex as SyncMutex;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::postgres::connection::{Connections, Param};
use crate::postgres::error::Trouble;
use crate::postgres::look::HOLDERS;
use crate::values::wall;
use crate::{CommitBatch, Fatal, HistoryBounds, HistoryFaults, Write};
use lockhouse_core::Change;

/// The time between two prunings without many writes, and for which a damaged history is left alone.
const PAUSE: Duration = Duration::from_secs(60);

/// The history is pruned after so many writes.
const PRUNED_AFTER: usize = 1000;

/// So many rows of a kind go with one statement, as `prune_history` has it.
const PRUNED_AT_ONCE: i64 = 1000;

/// The history of a store, as its commits and its readers have it.
pub(crate) struct HistoryKeeper {
    bounds: HistoryBounds,
    /// How long a statement may take.
    limit: Duration,
    sql: String,
    connections: Arc<Connections>,
    state: SyncMutex<Upkeep>,
}

#[derive(Debug, Default)]
struct Upkeep {
    pruned: Option<Instant>,
    /// The writes since then.
    writes: usize,
    is_pruning: bool,
    /// When it may be pruned again, after a fault.
    not_pruned_until: Option<Instant>,
    /// When commits may write to the history again.
    left_alone_until: Option<Instant>,
    faults: HistoryFaults,
    oldest_holder: Option<(Box<str>, i64)>,
}

impl HistoryKeeper {
    pub(crate) fn new(
        bounds: HistoryBounds,
        limit: Duration,
        quoted: &str,
        connections: Arc<Connections>,
    ) -> Self {
        let sql = format!("SELECT {quoted}.prune_history($1, $2, $3)");
        Self { bounds, limit, sql, connections, state: SyncMutex::default() }
    }

    /// How many rows a commit says are kept: with 0 it writes none.
    pub(crate) fn rows(&self) -> u32 {
        let is_left_alone = self.state.lock().left_alone_until.is_some_and(|until| Instant::now() < until);
        if is_left_alone { 0 } else { self.bounds.rows }
    }

    /// A commit came about only without the history, which no commit writes to for a minute.
    pub(crate) fn is_damaged(&self, fatal: &Fatal) {
        let mut state = self.state.lock();
        state.left_alone_until = Some(Instant::now() + PAUSE);
        state.faults.note(format!("commits leave it out: {fatal}"));
    }

    /// Batches are kept. `rows` is what their commit had of [`rows`](Self::rows).
    pub(crate) fn after_commit(self: &Arc<Self>, batches: &[Arc<CommitBatch>], rows: u32) {
        let mut state = self.state.lock();
        if rows < self.bounds.rows {
            state.faults.left_out += batches.iter().flat_map(|batch| &batch.writes).map(entries).sum::<u64>();
        }
        state.writes += batches.iter().map(|batch| batch.writes.len()).sum::<usize>();
        let is_due =
            state.writes >= PRUNED_AFTER || state.pruned.is_none_or(|pruned| pruned.elapsed() >= PAUSE);
        let may_begin = state.not_pruned_until.is_none_or(|until| Instant::now() >= until);
        if is_due && may_begin && !state.is_pruning {
            (state.is_pruning, state.writes, state.pruned) = (true, 0, Some(Instant::now()));
            tokio::spawn(Arc::clone(self).prune());
        }
    }

    pub(crate) fn faults(&self) -> HistoryFaults {
        self.state.lock().faults.clone()
    }

    /// Who has kept old versions of rows alive for longest, by the last look.
    pub(crate) fn oldest_holder(&self) -> Option<(Box<str>, i64)> {
        self.state.lock().oldest_holder.clone()
    }

    /// The rows of a statement about the history.
    pub(crate) async fn ask(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<Vec<Row>>, Trouble> {
        self.connections.histories.lock().await.run(self.limit, sql, params).await
    }

    /// Deletes what is beyond the bounds. What stays of it for a fault goes a minute later.
    async fn prune(self: Arc<Self>) {
        // An hour at most, as the options are checked.
        let lock_ms = (self.limit.as_millis() / 2).max(1) as i32;
        let rows = i64::from(self.bounds.rows);
        let fault = loop {
            // Under load it goes on for long.
            let oldest = self.bounds.oldest(SystemTime::now()).map(wall);
            let params: [Param<'_>; 3] = [(&lock_ms, Type::INT4), (&rows, Type::INT8), (&oldest, Type::INT8)];
            let oldest_holder = self.look_for_holder().await;
            self.state.lock().oldest_holder = oldest_holder;
            let gone = match self.ask(&self.sql, &params).await {
                Ok(rows) => rows.and_then(|rows| rows.first()?.try_get::<_, i64>(0).ok()).unwrap_or(0),
                Err(Trouble::Undone(why)) => break why.to_string(),
                Err(Trouble::Unknown(why)) => break why.into(),
                Err(Trouble::Damaged(fatal) | Trouble::Fatal(fatal)) => break fatal.to_string(),
            };
            if gone < PRUNED_AT_ONCE && self.has_pruned() {
                return;
            }
        };
        let mut state = self.state.lock();
        (state.is_pruning, state.not_pruned_until) = (false, Some(Instant::now() + PAUSE));
        state.faults.note(format!("it is not pruned: {fault}"));
    }

    /// Ends the pruning, unless so much was written meanwhile that another one is due: there may be no later
    /// commit to begin it.
    fn has_pruned(&self) -> bool {
        let mut state = self.state.lock();
        state.is_pruning = state.writes >= PRUNED_AFTER;
        if state.is_pruning {
            state.writes = 0;
        }
        !state.is_pruning
    }

    /// What makes commits slower and slower, as the versions of rows that they leave cannot be removed.
    async fn look_for_holder(&self) -> Option<(Box<str>, i64)> {
        let rows = self.ask(HOLDERS, &[]).await.ok()??;
        let row = rows.first()?;
        Some((row.try_get::<_, &str>("holder").ok()?.into(), row.try_get("age").ok()?))
    }
}

impl HistoryFaults {
    fn note(&mut self, why: String) {
        self.times += 1;
        self.why = why.into();
    }
}

/// How many entries of the history come of a write, at most; a lock that changes its mode excepted.
fn entries(write: &Write) -> u64 {
    match write {
        Write::Refused { .. } => 1,
        Write::Change { change, .. } => match change {
            Change::OwnerEnded { names, .. } => 1 + names.len() as u64,
            Change::Unlocked { .. }
            | Change::LocksVoided { .. }
            | Change::Unclaimed { .. }
            | Change::Assigned(_)
            | Change::Unassigned { .. } => 1,
            _ => 0,
        },
        _ => 0,
    }
}
