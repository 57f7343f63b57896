//! One life of a process that writes to the store, as the promises use it.

use std::sync::Arc;

use super::Harness;
use crate::{CommitBatch, CommitOutcome, Opened, RecoveredRow, Slot, Store, TakeError, Write, WriterId};

/// How often something is tried that a store refuses or loses.
const TRIES: usize = 1000;

/// A writer of the only slot, with the state that it received at its beginning.
pub(crate) struct Life {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) writer: WriterId,
    pub(crate) opened: Opened,
    pub(crate) recovered: Vec<RecoveredRow>,
    pub(crate) next_seq: u64,
}

impl Life {
    /// Opens the store and takes the slot.
    pub(crate) async fn begin(harness: &dyn Harness) -> Self {
        Self::take(harness.open().await, 0).await
    }

    /// Takes the slot of a store that is open. The number makes the writer another one.
    pub(crate) async fn take(store: Arc<dyn Store>, number: u64) -> Self {
        for _ in 0..TRIES {
            let mut recovered = Vec::new();
            let writer = WriterId(u64::MAX - number);
            match store.take_slot(Slot::ONLY, writer, &mut |piece| recovered.push(piece)).await {
                Ok(opened) => return Self { store, writer, opened, recovered, next_seq: 1 },
                Err(TakeError::Unavailable(_)) => {}
                Err(error) => panic!("the slot cannot be taken: {error}"),
            }
        }
        panic!("the slot could not be taken {TRIES} times");
    }

    /// The next batch, with these writes.
    pub(crate) fn batch(&self, writes: Vec<Write>) -> Arc<CommitBatch> {
        Arc::new(CommitBatch {
            slot: Slot::ONLY,
            epoch: self.opened.epoch,
            writer: self.writer,
            first_seq: self.next_seq,
            writes,
        })
    }

    /// Gets the writes committed, however many attempts it takes.
    pub(crate) async fn write(&mut self, writes: Vec<Write>) -> Arc<CommitBatch> {
        let batch = self.batch(writes);
        self.next_seq = batch.last_seq() + 1;
        for _ in 0..TRIES {
            match self.outcome(&batch).await {
                CommitOutcome::Committed => return batch,
                CommitOutcome::Unknown | CommitOutcome::Refused(_) => {}
                CommitOutcome::Damaged(fatal) => panic!("{fatal}"),
                CommitOutcome::Fenced => panic!("fenced, though nobody took the slot"),
            }
        }
        panic!("not kept after {TRIES} times");
    }

    pub(crate) async fn outcome(&self, batch: &Arc<CommitBatch>) -> CommitOutcome {
        self.outcomes(&[batch]).await.remove(0)
    }

    pub(crate) async fn outcomes(&self, batches: &[&Arc<CommitBatch>]) -> Vec<CommitOutcome> {
        let outcomes = self.store.commit(batches.iter().map(|batch| Arc::clone(batch)).collect()).await;
        let outcomes = outcomes.unwrap_or_else(|fatal| panic!("{fatal}"));
        assert_eq!(outcomes.len(), batches.len(), "one outcome for each batch");
        outcomes
    }

    /// The process is killed, and the next one begins.
    pub(crate) async fn kill(self, harness: &dyn Harness) -> Self {
        harness.kill(self.store).await;
        Self::begin(harness).await
    }

    /// The process closes the store, and the next one begins.
    pub(crate) async fn close(self, harness: &dyn Harness) -> Self {
        self.store.close().await.unwrap_or_else(|fatal| panic!("{fatal}"));
        drop(self.store);
        Self::begin(harness).await
    }
}
