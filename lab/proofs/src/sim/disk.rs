//! The disk that survives crashes, the way to it, and the ledger of all that is certainly on it.
//!
//! ```text
//!   house ─▶ DiskLink: slow, cut by a crash ─▶ FaultStore: loses, delays, refuses
//!         ─▶ Ledger: notes what is durable ─▶ MemoryStore
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use lockhouse_store::{
    BackupError, CommitBatch, CommitOutcome, Fatal, FaultCount, FaultStore, Faults, MemoryBackup,
    MemoryStore, NoNumberLeft, Opened, RecoveredRow, Scope, SecretKey, Slot, Store, StoreFuture, TakeError,
    WriterId,
};
use parking_lot::Mutex;
use random::Random;
use tokio::sync::watch;

use super::ledger::Ledger;

/// The state of the disk at some moment.
#[derive(Debug)]
struct Backup {
    memory: MemoryBackup,
    ledger: Ledger,
}

/// The one disk for all lives of the server.
#[derive(Debug)]
pub(crate) struct Disk {
    noted: Arc<Noted>,
    way: FaultStore,
    /// The batches that were on their way when their sender died.
    strays: Mutex<Vec<Arc<CommitBatch>>>,
    /// The oldest first.
    backups: Mutex<Vec<Backup>>,
    random: Mutex<Random>,
    /// The longest time of a commit, in milliseconds.
    slowest_ms: AtomicU64,
    /// Whether no call is answered any more; those under way wait until it is over.
    hangs: watch::Sender<bool>,
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let memory = MemoryStore::with_key(SecretKey::new([7; 32]));
        let noted = Arc::new(Noted { memory: Mutex::new(Arc::new(memory)), ledger: Mutex::default() });
        Arc::new(Self {
            way: FaultStore::new(noted.clone(), seed, Faults::NONE),
            noted,
            strays: Mutex::default(),
            backups: Mutex::default(),
            random: Mutex::new(Random::new(!seed)),
            slowest_ms: AtomicU64::new(0),
            hangs: watch::Sender::new(false),
        })
    }

    /// A link to the disk for a new life of the server.
    pub(crate) fn link(self: &Arc<Self>) -> Arc<DiskLink> {
        self.noted.reopen();
        Arc::new(DiskLink { disk: self.clone(), is_cut: AtomicBool::new(false) })
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.way.set_faults(faults);
    }

    pub(crate) fn set_slowest(&self, ms: u64) {
        self.slowest_ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn set_hanging(&self, hangs: bool) {
        self.hangs.send_replace(hangs);
    }

    pub(crate) fn hangs(&self) -> bool {
        *self.hangs.borrow()
    }

    pub(crate) fn faults(&self) -> FaultCount {
        self.way.count()
    }

    /// Looks at what certainly stands on the disk.
    pub(crate) fn ledger<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.noted.ledger.lock())
    }

    /// A token is announced to a client; as [`Ledger::announce`].
    pub(crate) fn announce(&self, scope: &Arc<Scope>, token: u64) -> bool {
        self.noted.ledger.lock().announce(scope, token)
    }

    /// A part of the batches on their way arrives. True if one was stored although it came too late.
    pub(crate) fn strays_arrive(&self, only_some: bool) -> bool {
        let strays: Vec<_> = {
            let mut random = self.random.lock();
            self.strays.lock().extract_if(.., |_| !only_some || random.percent(50)).collect()
        };
        let epoch = self.ledger(Ledger::epoch);
        strays.into_iter().any(|batch| {
            let is_late = batch.epoch != epoch;
            self.noted.commit_now(&batch) == Some(CommitOutcome::Committed) && is_late
        })
    }

    pub(crate) fn back_up(&self) {
        let backup = Backup { memory: self.noted.memory().copy(), ledger: self.ledger(Ledger::clone) };
        self.backups.lock().push(backup);
    }

    /// How many backups there are.
    pub(crate) fn backups(&self) -> usize {
        self.backups.lock().len()
    }

    /// Restores that backup, as `lockhouse restore` would; `is_lost`: in the place of a disk that cannot be
    /// read any more. The token above which the server goes on.
    pub(crate) fn restore(&self, nth: usize, is_lost: bool, now: SystemTime) -> Result<u64, NoNumberLeft> {
        let backup = &self.backups.lock()[nth];
        let above = self.noted.memory().restore(&backup.memory, is_lost, now)?;
        self.noted.ledger.lock().restored(&backup.ledger, above);
        Ok(above.mark)
    }

    /// A random number up to this one.
    pub(crate) fn draw(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.random.lock().next_u64() % (bound + 1) }
    }
}

/// The link of one life of the server to its disk.
#[derive(Debug)]
pub(crate) struct DiskLink {
    disk: Arc<Disk>,
    is_cut: AtomicBool,
}

impl DiskLink {
    /// The process dies: nothing leaves it any more.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    async fn pause(&self) {
        let ms = self.disk.draw(self.disk.slowest_ms.load(Ordering::Relaxed));
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        _ = self.disk.hangs.subscribe().wait_for(|hangs| !hangs).await;
        if self.is_cut() {
            std::future::pending::<()>().await;
        }
    }
}

impl Store for DiskLink {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        self.disk.way.take_slot(slot, writer, visit)
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move {
            let mut flight = Flight { link: self, batches };
            self.pause().await;
            let batches = std::mem::take(&mut flight.batches);
            let outcomes = self.disk.way.commit(batches).await?;
            self.pause().await;
            Ok(outcomes)
        })
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        self.disk.way.backup(to)
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        self.disk.way.close()
    }
}

/// Batches on their way; if their sender dies, they may still arrive.
struct Flight<'a> {
    link: &'a DiskLink,
    batches: Vec<Arc<CommitBatch>>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.link.is_cut() {
            self.link.disk.strays.lock().append(&mut self.batches);
        }
    }
}

/// The memory store, with a record of everything that it has stored.
#[derive(Debug)]
struct Noted {
    memory: Mutex<Arc<MemoryStore>>,
    ledger: Mutex<Ledger>,
}

impl Noted {
    fn reopen(&self) {
        let mut memory = self.memory.lock();
        *memory = Arc::new(memory.reopen());
    }

    fn memory(&self) -> Arc<MemoryStore> {
        self.memory.lock().clone()
    }

    fn note(&self, batches: &[Arc<CommitBatch>], outcomes: &[CommitOutcome]) {
        let mut ledger = self.ledger.lock();
        let committed =
            batches.iter().zip(outcomes).filter(|(_, outcome)| **outcome == CommitOutcome::Committed);
        committed.for_each(|(batch, _)| ledger.note(batch));
    }

    /// The outcome of a commit to the memory store, which answers at once; none if it does not.
    fn commit_now(&self, batch: &Arc<CommitBatch>) -> Option<CommitOutcome> {
        let mut answer = self.commit(vec![batch.clone()]);
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(outcomes)) => outcomes.into_iter().next(),
            _ => None,
        }
    }
}

impl Store for Noted {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        Box::pin(async move {
            let opened = self.memory().take_slot(slot, writer, visit).await?;
            self.ledger.lock().taken(opened.epoch);
            Ok(opened)
        })
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move {
            let outcomes = self.memory().commit(batches.clone()).await?;
            self.note(&batches, &outcomes);
            Ok(outcomes)
        })
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        Box::pin(async move { self.memory().backup(to).await })
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        Box::pin(async move { self.memory().close().await })
    }
}
