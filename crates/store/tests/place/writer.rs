//! A writer that stores numbers, each as a batch of several locks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lockhouse_core::{
    Change, FencingToken, Instant, LockRecord, Mode, NameBuf, OwnerId, OwnerRecord, SecretSeed,
};
use lockhouse_store::{
    CommitBatch, CommitOutcome, Fatal, Opened, RecoveredRow, Scope, Slot, SqliteStore, Store, TakeError,
    Write, WriterId,
};

/// Locks in each batch.
pub(crate) const PARTS: u64 = 10;

pub(crate) struct Writer {
    pub(crate) store: SqliteStore,
    pub(crate) opened: Opened,
    /// The numbers that were there at the beginning, and the number of locks of each.
    pub(crate) found: BTreeMap<u64, u64>,
    pub(crate) recovered: Vec<RecoveredRow>,
    next_seq: u64,
}

impl Writer {
    pub(crate) async fn open(path: &Path) -> Self {
        let store = SqliteStore::open(path).unwrap_or_else(|error| panic!("{error}"));
        Self::take(store).await.unwrap_or_else(|(_, error)| panic!("{error}"))
    }

    pub(crate) async fn take(store: SqliteStore) -> Result<Self, (SqliteStore, TakeError)> {
        let mut recovered = Vec::new();
        let taken = store.take_slot(Slot::ONLY, WriterId(1), &mut |piece| recovered.push(piece)).await;
        let opened = match taken {
            Ok(opened) => opened,
            Err(error) => return Err((store, error)),
        };
        let mut found = BTreeMap::new();
        for piece in &recovered {
            if let RecoveredRow::Change { change: Change::Locked(lock), .. } = piece {
                *found.entry(lock.name.as_name().as_str().unwrap().parse().unwrap()).or_default() += 1;
            }
        }
        Ok(Self { store, opened, found, recovered, next_seq: 1 })
    }

    /// Tries to store a number, with that many bytes beside it.
    pub(crate) async fn keep(&mut self, number: u64, bytes: usize) -> Result<CommitOutcome, Fatal> {
        let batch = self.batch(number, bytes);
        self.commit(batch).await
    }

    /// Stores many numbers at once.
    pub(crate) async fn keep_all(&mut self, numbers: std::ops::RangeInclusive<u64>, bytes: usize) {
        let mut batches = Vec::new();
        for number in numbers {
            let batch = self.batch(number, bytes);
            self.next_seq = batch.last_seq() + 1;
            batches.push(batch);
        }
        let outcomes = self.store.commit(batches).await.unwrap_or_else(|fatal| panic!("{fatal}"));
        assert!(outcomes.iter().all(|outcome| *outcome == CommitOutcome::Committed), "{outcomes:?}");
    }

    /// The batch for the number.
    pub(crate) fn batch(&self, number: u64, bytes: usize) -> Arc<CommitBatch> {
        self.batch_of((0..PARTS).map(|part| Change::Locked(lock(number, part, bytes))))
    }

    pub(crate) async fn write(&mut self, changes: Vec<Change>) -> Result<CommitOutcome, Fatal> {
        let batch = self.batch_of(changes);
        self.commit(batch).await
    }

    fn batch_of(&self, changes: impl IntoIterator<Item = Change>) -> Arc<CommitBatch> {
        let scope = Arc::new(Scope::new("t", "b"));
        let write = |change| Write::Change { scope: Arc::clone(&scope), change };
        let writes = changes.into_iter().map(write).collect();
        let (epoch, first_seq) = (self.opened.epoch, self.next_seq);
        Arc::new(CommitBatch { slot: Slot::ONLY, epoch, writer: WriterId(1), first_seq, writes })
    }

    async fn commit(&mut self, batch: Arc<CommitBatch>) -> Result<CommitOutcome, Fatal> {
        let last_seq = batch.last_seq();
        let outcome = self.store.commit(vec![batch]).await?.remove(0);
        if outcome == CommitOutcome::Committed {
            self.next_seq = last_seq + 1;
        }
        Ok(outcome)
    }

    pub(crate) async fn close(self) {
        self.store.close().await.unwrap_or_else(|fatal| panic!("{fatal}"));
    }
}

pub(crate) fn lock(number: u64, part: u64, bytes: usize) -> LockRecord {
    LockRecord {
        name: NameBuf::new(&number.to_string()).unwrap(),
        owner: OwnerId::new(part),
        mode: Mode::Shared,
        token: FencingToken::new(1 + number * PARTS + part),
        since: Instant::from_millis(1_790_000_000_000),
        metadata: Some("x".repeat(bytes / PARTS as usize).into()),
    }
}

pub(crate) fn owner(number: u64) -> OwnerRecord {
    OwnerRecord {
        owner: OwnerId::new(number),
        label: "Ann".into(),
        metadata: None,
        ttl_ms: 60_000,
        since: Instant::from_millis(1_790_000_000_000),
        ends: None,
        seed: SecretSeed(7),
    }
}
