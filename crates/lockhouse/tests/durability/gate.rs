//! A memory store behind a gate: commits wait until they are let through, and can be made to fail.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockhouse::store::{
    BackupError, CommitBatch, CommitOutcome, Fatal, MemoryStore, Opened, RecoveredRow, Slot, Store,
    StoreFuture, TakeError, Write, WriterId,
};
use lockhouse::{Bucket, House, LockType, ManualClock, Options, Port, RecordKind, Wanted};
use lockhouse::{Notice, Owner};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) inner: MemoryStore,
    permits: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Every batch that came, each time it came.
    batches: Vec<Arc<CommitBatch>>,
    /// The outcomes of the next batches, in place of a commit.
    outcomes: VecDeque<CommitOutcome>,
}

/// More than any test lets through one by one.
const OPEN: usize = 1 << 30;

impl Gate {
    /// An open one.
    pub(crate) fn new() -> Arc<Self> {
        Self::before(MemoryStore::new().unwrap())
    }

    pub(crate) fn before(inner: MemoryStore) -> Arc<Self> {
        Arc::new(Self { inner, permits: Semaphore::new(OPEN), state: Mutex::default() })
    }

    /// From now on nothing gets through.
    pub(crate) fn shut(&self) {
        self.permits.forget_permits(OPEN);
    }

    /// Lets everything through.
    pub(crate) fn open(&self) {
        self.permits.add_permits(OPEN - self.permits.available_permits());
    }

    /// Lets so many commits through.
    pub(crate) fn let_through(&self, commits: usize) {
        self.permits.add_permits(commits);
    }

    pub(crate) fn then(&self, outcomes: impl IntoIterator<Item = CommitOutcome>) {
        self.state.lock().unwrap().outcomes.extend(outcomes);
    }

    /// The batches that came so far, which are forgotten.
    pub(crate) fn batches(&self) -> Vec<Arc<CommitBatch>> {
        std::mem::take(&mut self.state.lock().unwrap().batches)
    }

    /// All that came so far and has to do with names or leases.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.batches().iter().flat_map(|batch| batch.writes.clone()).collect()
    }

    pub(crate) async fn house(self: &Arc<Self>) -> House {
        self.house_with(Options::new()).await
    }

    pub(crate) async fn house_with(self: &Arc<Self>, options: Options) -> House {
        let house = House::open(self.clone(), options).await.unwrap();
        settle().await;
        self.batches();
        house
    }

    /// A house, its bucket `default` with tokens reserved, and an owner in it; then the gate is shut.
    pub(crate) async fn shut_house(self: &Arc<Self>) -> (House, Bucket, Owner) {
        let house = self.house().await;
        let bucket = house.bucket("default");
        let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
        settle().await;
        self.batches();
        self.shut();
        (house, bucket, owner)
    }
}

impl Store for Gate {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        self.inner.take_slot(slot, writer, visit)
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move {
            self.state.lock().unwrap().batches.extend(batches.iter().cloned());
            self.permits.acquire().await.unwrap().forget();
            let outcome = self.state.lock().unwrap().outcomes.pop_front();
            match outcome {
                Some(outcome) => Ok(vec![outcome]),
                None => self.inner.commit(batches).await,
            }
        })
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        self.inner.backup(to)
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        self.inner.close()
    }
}

/// Lets every other task do all that it can do now.
pub(crate) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Polls once; before that and after it, all other tasks do what they can.
pub(crate) async fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    settle().await;
    let polled =
        std::future::poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *future).poll(context))).await;
    settle().await;
    polled
}

pub(crate) fn record(id: u32) -> Wanted {
    RecordKind::new("record", LockType::ExclusiveWrite).for_write(id)
}

pub(crate) fn drained(port: &Port) -> Vec<Notice> {
    let mut notices = VecDeque::new();
    port.drain(&mut notices).unwrap();
    notices.into()
}

pub(crate) fn manual() -> (ManualClock, Options) {
    let clock = ManualClock::new();
    let options = Options::new().clock(&clock);
    (clock, options)
}
