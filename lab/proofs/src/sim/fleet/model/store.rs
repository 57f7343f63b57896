//! The model database as a process has it: what `PostgresFleet` and `PostgresStore` promise, with the same
//! statements in the same order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_store::{
    BackupError, CommitBatch, CommitOutcome, Fatal, Fleet, FleetRows, FleetStore, JoinError, NewNode, NodeId,
    NodeRenewal, Opened, RecoveredRow, Slot, Store, StoreFuture, StoreUnavailable, TakeError, WriterId,
};
use parking_lot::Mutex;

use super::database::{Database, Lane, Traffic};
use super::tables::{Committed, Demoted, KnownCommits, KnownSlot, LoadAnswer, TakeAnswer, pages_damaged};

/// The fleet, as one process has it.
#[derive(Debug)]
pub(crate) struct ModelFleet {
    connections: Connections,
    slots: u16,
    /// What is known outside every life of the node.
    outside: Arc<Mutex<KnownCommits>>,
}

/// The store of one life of a node.
#[derive(Debug)]
struct ModelStore {
    connections: Connections,
    id: NodeId,
    known: Arc<Mutex<KnownCommits>>,
}

/// The connections of a process.
#[derive(Clone, Debug)]
struct Connections {
    database: Arc<Database>,
    process: usize,
    /// How long an answer is waited for.
    limit: Duration,
    /// Held during a load, and during all but loads and commits.
    loads: Arc<tokio::sync::Mutex<()>>,
    looks: Arc<tokio::sync::Mutex<()>>,
}

impl ModelFleet {
    pub(crate) fn new(database: &Arc<Database>, process: usize, slots: u16, limit: Duration) -> Self {
        let (database, loads, looks) = (database.clone(), Arc::default(), Arc::default());
        let outside = Arc::new(Mutex::new(KnownCommits { generation: 1, ..KnownCommits::default() }));
        Self { connections: Connections { database, process, limit, loads, looks }, slots, outside }
    }

    async fn join(&self, new: &NewNode) -> Result<Arc<dyn FleetStore>, JoinError> {
        let id = NodeId(self.connections.database.draw());
        let (known, new) = (self.outside.lock().clone(), new.clone());
        let joined = self.connections.ask(move |statement| {
            let joined = statement.join(&known, id, &new);
            joined.map(|(row, generation)| (row, generation, statement.timeline))
        });
        let (row, generation, timeline) = joined.await?;
        let known = KnownCommits { generation, timeline, ..KnownCommits::default() };
        *self.outside.lock() = known.clone();
        if row.id != id {
            return Err(JoinError::LabelInUse(row));
        }
        let connections = self.connections.clone();
        Ok(Arc::new(ModelStore { connections, id, known: Arc::new(Mutex::new(known)) }))
    }
}

impl Fleet for ModelFleet {
    fn slots(&self) -> u16 {
        self.slots
    }

    fn look(&self) -> StoreFuture<'_, Result<FleetRows, JoinError>> {
        Box::pin(self.connections.look())
    }

    fn bury(&self, dead: NodeId, seen: u64) -> StoreFuture<'_, Result<bool, JoinError>> {
        let known = self.outside.lock().clone();
        Box::pin(self.connections.ask(move |statement| statement.bury(&known, None, dead, seen)))
    }

    fn join<'a>(&'a self, node: &'a NewNode) -> StoreFuture<'a, Result<Arc<dyn FleetStore>, JoinError>> {
        Box::pin(self.join(node))
    }
}

impl ModelStore {
    async fn commit_all(&self, batches: Vec<Arc<CommitBatch>>) -> (Vec<CommitOutcome>, NodeRenewal) {
        let (known, id) = (self.known.lock().of_batches(&batches), self.id);
        let lane = self.connections.lane(Traffic::Commits);
        let sent = batches.clone();
        let statement = self
            .connections
            .database
            .ask(lane, self.connections.limit, move |statement| statement.commit(&known, id, &sent));
        let all = |outcome: CommitOutcome| vec![outcome; batches.len()];
        match statement.await {
            None | Some(Err(Demoted)) => {
                (all(CommitOutcome::Unknown), NodeRenewal::Unknown("no answer".into()))
            }
            Some(Ok(Committed::Dead(timeline))) => {
                self.known.lock().saw(timeline);
                (all(CommitOutcome::Fenced), NodeRenewal::Dead)
            }
            Some(Ok(Committed::Outcomes(outcomes, owned))) => {
                self.known.lock().confirm(&batches, &outcomes);
                (outcomes, NodeRenewal::Owns(owned))
            }
        }
    }

    async fn take(
        &self,
        slot: Slot,
        writer: WriterId,
        visit: &mut (dyn FnMut(RecoveredRow) + Send),
    ) -> Result<Opened, TakeError> {
        let Connections { database, loads, limit, .. } = &self.connections;
        let (lane, _load) = (self.connections.lane(Traffic::Loads), loads.lock().await);
        let seen = database.ask(lane, *limit, move |statement| statement.epoch_of(slot)).await;
        let seen = seen.ok_or_else(away)?;
        let (known, id) = (self.known.lock().clone(), self.id);
        let taken = database.ask(lane, *limit, move |statement| {
            (statement.take(&known, slot, writer, id, seen), statement.timeline)
        });
        let (taken, timeline) = taken.await.ok_or_else(away)?;
        let taken = taken.map_err(|Demoted| away())?;
        self.known.lock().saw(timeline);
        let (opened, generation) = match taken {
            TakeAnswer::Done(opened, generation) => (opened, generation),
            TakeAnswer::NodeGone => return Err(TakeError::NodeGone),
            TakeAnswer::OwnedElsewhere => return Err(TakeError::OwnedElsewhere(slot)),
            TakeAnswer::Outrun => return Err(away().into()),
        };
        let epoch = opened.epoch;
        self.known.lock().took(generation, slot, epoch, writer);
        let loaded = database.ask(lane, *limit, move |statement| statement.load(slot, epoch, writer)).await;
        match loaded.ok_or_else(away)? {
            LoadAnswer::Rows(rows) => rows.into_iter().for_each(visit),
            LoadAnswer::Gone => return Err(away().into()),
            LoadAnswer::Damaged => return Err(TakeError::Fatal(pages_damaged())),
        }
        Ok(*opened)
    }
}

impl Store for ModelStore {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        Box::pin(self.take(slot, writer, visit))
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move { Ok(self.commit_all(batches).await.0) })
    }

    fn backup(&self, _: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        Box::pin(async { Err(BackupError::Unsupported("the model database", "it has none")) })
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        Box::pin(async { Ok(()) })
    }
}

impl FleetStore for ModelStore {
    fn id(&self) -> NodeId {
        self.id
    }

    fn commit_and_renew(
        &self,
        batches: Vec<Arc<CommitBatch>>,
    ) -> StoreFuture<'_, Result<(Vec<CommitOutcome>, NodeRenewal), Fatal>> {
        Box::pin(async move { Ok(self.commit_all(batches).await) })
    }

    fn look(&self) -> StoreFuture<'_, Result<FleetRows, JoinError>> {
        Box::pin(self.connections.look())
    }

    fn bury(&self, dead: NodeId, seen: u64) -> StoreFuture<'_, Result<bool, JoinError>> {
        let (known, own) = (self.known.lock().clone(), Some(self.id));
        Box::pin(self.connections.ask(move |statement| statement.bury(&known, own, dead, seen)))
    }

    fn leave(&self) -> StoreFuture<'_, Result<(), JoinError>> {
        let (known, own) = (self.known.lock().clone(), self.id);
        Box::pin(self.connections.ask(move |statement| statement.leave(&known, own)))
    }
}

impl Connections {
    fn lane(&self, traffic: Traffic) -> Lane {
        Lane { process: self.process, traffic }
    }

    /// Slots first, so that a node that joins and takes a slot in between has a row.
    async fn look(&self) -> Result<FleetRows, JoinError> {
        let slots = self.ask(|statement| Ok(statement.slot_rows())).await?;
        let nodes = self.ask(|statement| Ok(statement.node_rows())).await?;
        Ok(FleetRows { nodes, slots })
    }

    /// The answer over the connection for polls and the like.
    async fn ask<T: Send + 'static>(
        &self,
        statement: impl FnOnce(&mut super::tables::Statement<'_>) -> Result<T, Demoted> + Send + 'static,
    ) -> Result<T, JoinError> {
        let _look = self.looks.lock().await;
        match self.database.ask(self.lane(Traffic::Looks), self.limit, statement).await {
            Some(Ok(answer)) => Ok(answer),
            None | Some(Err(Demoted)) => Err(away().into()),
        }
    }
}

impl KnownCommits {
    fn saw(&mut self, timeline: u64) {
        self.timeline = self.timeline.max(timeline);
    }

    fn took(&mut self, generation: u64, slot: Slot, epoch: u64, writer: WriterId) {
        self.generation = generation;
        self.slots.insert(slot, KnownSlot { epoch, writer, last_seq: 0 });
    }

    fn confirm(&mut self, batches: &[Arc<CommitBatch>], outcomes: &[CommitOutcome]) {
        for (batch, outcome) in batches.iter().zip(outcomes) {
            if *outcome == CommitOutcome::Committed
                && let Some(known) = self.slots.get_mut(&batch.slot)
                && (known.epoch, known.writer) == (batch.epoch, batch.writer)
            {
                known.last_seq = known.last_seq.max(batch.last_seq());
            }
        }
    }

    /// What is known of the slots of a commit; of all slots if it has no batches.
    fn of_batches(&self, batches: &[Arc<CommitBatch>]) -> Self {
        let mut known = self.clone();
        known.slots.retain(|slot, _| batches.is_empty() || batches.iter().any(|batch| batch.slot == *slot));
        known
    }
}

fn away() -> StoreUnavailable {
    StoreUnavailable::Away { place: "the model database".into(), why: "by the seed".into() }
}
