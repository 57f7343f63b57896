//! A memory store behind a gate: commits wait until they are let through, and may be told to fail.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockhouse::store::{
    Answer, BackupError, Fatal, Fate, Kept, MemoryStore, Opened, Section, Slot, Store, TakeError, Write,
    WriterId,
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
    /// Every section that came, each time it came.
    sections: Vec<Arc<Section>>,
    /// What becomes of the next ones, instead of being kept.
    fates: VecDeque<Fate>,
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

    pub(crate) fn then(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state.lock().unwrap().fates.extend(fates);
    }

    /// The sections that came so far, which are forgotten.
    pub(crate) fn sections(&self) -> Vec<Arc<Section>> {
        std::mem::take(&mut self.state.lock().unwrap().sections)
    }

    /// All that came so far and has to do with names or leases.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.sections().iter().flat_map(|section| section.writes.clone()).collect()
    }

    pub(crate) async fn house(self: &Arc<Self>) -> House {
        self.house_with(Options::new()).await
    }

    pub(crate) async fn house_with(self: &Arc<Self>, options: Options) -> House {
        let house = House::open(self.clone(), options).await.unwrap();
        settle().await;
        self.sections();
        house
    }

    /// A house, its bucket `default` with tokens reserved, and an owner in it; then the gate is shut.
    pub(crate) async fn shut_house(self: &Arc<Self>) -> (House, Bucket, Owner) {
        let house = self.house().await;
        let bucket = house.bucket("default");
        let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
        settle().await;
        self.sections();
        self.shut();
        (house, bucket, owner)
    }
}

impl Store for Gate {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(Kept) + Send),
    ) -> Answer<'a, Result<Opened, TakeError>> {
        self.inner.take_slot(slot, writer, visit)
    }

    fn commit(&self, sections: Vec<Arc<Section>>) -> Answer<'_, Result<Vec<Fate>, Fatal>> {
        Box::pin(async move {
            self.state.lock().unwrap().sections.extend(sections.iter().cloned());
            self.permits.acquire().await.unwrap().forget();
            let fate = self.state.lock().unwrap().fates.pop_front();
            match fate {
                Some(fate) => Ok(vec![fate]),
                None => self.inner.commit(sections).await,
            }
        })
    }

    fn backup(&self, to: PathBuf) -> Answer<'_, Result<(), BackupError>> {
        self.inner.backup(to)
    }

    fn close(&self) -> Answer<'_, Result<(), Fatal>> {
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
