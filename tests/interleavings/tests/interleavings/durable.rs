//! A house over a store in memory, and the records of that store.

use std::path::PathBuf;
use std::sync::Arc;

use lockhouse::core::Change;
use lockhouse::store::{
    BackupError, CommitBatch, CommitOutcome, Fatal, MemoryStore, Opened, RecoveredRow, Slot, Store,
    StoreFuture, TakeError, WriterId,
};
use lockhouse::{House, ManualClock, Options};
use shuttle::sync::atomic::{AtomicUsize, Ordering};

use crate::check::wait;

/// The bucket of all scenarios.
pub(crate) const BUCKET: &str = "seats";

/// A store whose calls take a while: others may do something before and after.
#[derive(Debug)]
struct Slow {
    store: MemoryStore,
    turns: AtomicUsize,
}

impl Slow {
    /// Others may have their turn. A yield would be more than that: PCT prefers every other thread then, and
    /// finds no schedule in which one of them stays behind for longer.
    fn pause(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }
}

impl Store for Slow {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        Box::pin(async move {
            // The store has a mutex of its own meanwhile, in which no other thread may get its turn.
            let mut rows = Vec::new();
            let opened = self.store.take_slot(slot, writer, &mut |row| rows.push(row)).await;
            rows.into_iter().for_each(visit);
            opened
        })
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move {
            self.pause();
            let outcomes = self.store.commit(batches).await;
            self.pause();
            outcomes
        })
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        self.store.backup(to)
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        Box::pin(async move {
            self.pause();
            self.store.close().await
        })
    }
}

/// A house over that store, whose time stands still.
pub(crate) fn open(store: &MemoryStore) -> House {
    let options = Options::new().clock(&ManualClock::new());
    let store = Slow { store: store.reopen(), turns: AtomicUsize::new(0) };
    wait(House::open(Arc::new(store), options)).expect("the store has no fault")
}

pub(crate) fn new_store() -> MemoryStore {
    MemoryStore::new().expect("the system gives random numbers")
}

/// The records of the store, as the writer finds them that takes it over with this call.
pub(crate) fn take_over(store: &MemoryStore) -> Records {
    let mut records = Records::default();
    let store = store.reopen();
    let mut visit = |row| {
        if let RecoveredRow::Change { change, .. } = row {
            records.0.push(change);
        }
    };
    wait(store.take_slot(Slot::ONLY, WriterId(7), &mut visit)).expect("the store has no fault");
    records
}

/// The records that a store has.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Records(Vec<Change>);

impl Records {
    pub(crate) fn owners(&self) -> usize {
        self.count(|change| matches!(change, Change::OwnerOpened(_)))
    }

    pub(crate) fn locks(&self) -> usize {
        self.count(|change| matches!(change, Change::Locked(_)))
    }

    pub(crate) fn claims(&self) -> usize {
        self.count(|change| matches!(change, Change::Claimed(_)))
    }

    pub(crate) fn assignments(&self) -> usize {
        self.count(|change| matches!(change, Change::Assigned(_)))
    }

    fn count(&self, is_counted: impl Fn(&Change) -> bool) -> usize {
        self.0.iter().filter(|change| is_counted(change)).count()
    }
}
