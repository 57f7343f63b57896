//! A store that lives as long as a reference to it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::history::HISTORY_ROWS_LOOKED_AT;
use crate::state::SlotState;
use crate::{
    BackupError, CommitBatch, CommitOutcome, Fatal, HistoryBounds, HistoryEnd, HistoryEntry, HistoryError,
    HistoryPage, HistoryQuery, Opened, RecoveredRow, Scope, SecretKey, Slot, Store, StoreFuture, TakeError,
    WriterId,
};
#[cfg(feature = "conformance")]
use crate::{HighestNumbers, NoNumberLeft};

/// A store in memory. Nothing outlives the process. The store has every slot.
///
/// ```
/// use lockhouse_store::{MemoryStore, Slot, Store, WriterId};
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// # fn wait<T>(future: impl Future<Output = T>) -> T {
/// #     let mut context = Context::from_waker(Waker::noop());
/// #     let Poll::Ready(answer) = pin!(future).poll(&mut context) else { panic!() };
/// #     answer
/// # }
///
/// let store = MemoryStore::new().unwrap();
/// let opened = wait(store.take_slot(Slot::ONLY, WriterId(7), &mut |row| panic!("{row:?}"))).unwrap();
/// assert_eq!(opened.epoch, 1);
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    memory: Arc<Mutex<Memory>>,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Memory {
    key: SecretKey,
    slots: BTreeMap<Slot, SlotState>,
    ends: Entries,
    refusals: Entries,
    bounds: HistoryBounds,
    /// When entries were last looked for that are too old.
    looked: Option<Instant>,
    last_entry: u64,
}

/// Entries of the history, in order.
#[derive(Debug, Default)]
struct Entries {
    list: VecDeque<(Arc<Scope>, HistoryEntry)>,
    bytes: usize,
}

/// The entries of the history take no more than so many bytes, of which refusals may take a tenth from
/// others.
const HISTORY_BYTES: usize = 16 << 20;

/// The time between two looks for entries that are too old.
const AGE_CHECK: Duration = Duration::from_secs(60);

impl Entries {
    fn add(&mut self, scope: Arc<Scope>, entry: HistoryEntry) {
        self.bytes += entry.bytes();
        self.list.push_back((scope, entry));
    }

    fn forget_oldest(&mut self) {
        if let Some((_, entry)) = self.list.pop_front() {
            self.bytes -= entry.bytes();
        }
    }

    fn keep_newest(&mut self, count: u32) {
        while self.list.len() > count as usize {
            self.forget_oldest();
        }
    }

    /// Wherever they are: a clock may have been wrong for a while.
    fn forget_older(&mut self, oldest: lockhouse_core::Instant) {
        self.list.retain(|(_, entry)| {
            let is_old = entry.at < oldest;
            if is_old {
                self.bytes -= entry.bytes();
            }
            !is_old
        });
    }

    /// Those below a number, the newest first.
    fn below(&self, seq: u64) -> impl Iterator<Item = &(Arc<Scope>, HistoryEntry)> {
        let count = self.list.partition_point(|(_, entry)| entry.seq < seq);
        self.list.range(..count).rev()
    }
}

impl Memory {
    fn commit(&mut self, batch: &CommitBatch) -> CommitOutcome {
        let Self { slots, ends, refusals, last_entry, .. } = self;
        let Some(state) = slots.get_mut(&batch.slot) else { return CommitOutcome::Fenced };
        let outcome = state.commit(batch, &mut |scope, entry| {
            *last_entry += 1;
            let of_its_kind = if entry.end == HistoryEnd::Refused { &mut *refusals } else { &mut *ends };
            of_its_kind.add(Arc::clone(scope), HistoryEntry { seq: *last_entry, ..entry });
        });
        self.prune();
        outcome
    }

    /// Refusals push nothing out but refusals.
    fn prune(&mut self) {
        let Self { ends, refusals, bounds, .. } = self;
        ends.keep_newest(bounds.rows);
        refusals.keep_newest(bounds.refusals());
        while ends.bytes + refusals.bytes > HISTORY_BYTES {
            let of_one = if refusals.bytes > HISTORY_BYTES / 10 { &mut *refusals } else { &mut *ends };
            of_one.forget_oldest();
        }
        let is_time_to_look = self.looked.is_none_or(|looked| looked.elapsed() >= AGE_CHECK);
        if is_time_to_look && let Some(oldest) = self.bounds.oldest(SystemTime::now()) {
            self.looked = Some(Instant::now());
            [&mut self.ends, &mut self.refusals].into_iter().for_each(|of_one| of_one.forget_older(oldest));
        }
    }

    fn page(&self, query: &HistoryQuery) -> HistoryPage {
        let before = query.before.unwrap_or(u64::MAX);
        let [mut ends, mut refusals] = [&self.ends, &self.refusals].map(|it| it.below(before).peekable());
        let newest_first = std::iter::from_fn(|| {
            let is_refusal =
                refusals.peek().map(|(_, entry)| entry.seq) > ends.peek().map(|(_, entry)| entry.seq);
            if is_refusal { refusals.next() } else { ends.next() }
        });
        let mut page = HistoryPage::default();
        for (looked_at, (scope, entry)) in newest_first.enumerate() {
            if page.entries.len() == query.limit || looked_at == HISTORY_ROWS_LOOKED_AT as usize {
                page.next = Some(entry.seq + 1);
                break;
            }
            if **scope == query.scope && query.filter.is_met_by(entry) {
                page.entries.push(entry.clone());
            }
        }
        page
    }
}

/// A copy of a [`MemoryStore`], to be restored later.
#[cfg(feature = "conformance")]
#[derive(Clone, Debug)]
pub struct MemoryBackup(BTreeMap<Slot, SlotState>);

/// One slot as a [`MemoryStore`] has it, for models of other stores. At first it is one that was never taken.
#[cfg(feature = "conformance")]
#[derive(Clone, Debug, Default)]
pub struct StoredSlot(SlotState);

#[cfg(feature = "conformance")]
impl StoredSlot {
    /// As [`Store::take_slot`], without the rows.
    pub fn take(&mut self, writer: WriterId, key: SecretKey) -> Opened {
        self.0.take(writer, key)
    }

    /// As [`Store::commit`].
    pub fn commit(&mut self, batch: &CommitBatch) -> CommitOutcome {
        self.0.commit(batch, &mut |_, _| {})
    }

    /// The whole stored state.
    pub fn visit(&self, visit: &mut dyn FnMut(RecoveredRow)) {
        self.0.visit(visit);
    }

    /// The highest numbers of the slot.
    pub fn highest_numbers(&self) -> HighestNumbers {
        self.0.highest_numbers()
    }

    /// Goes on as a restored state, above these numbers.
    pub fn go_on_above(&mut self, numbers: HighestNumbers) {
        self.0.go_on_above(numbers);
    }
}

impl MemoryStore {
    /// So many rows of history are kept unless [`keeping`](Self::keeping) says otherwise.
    pub const HISTORY_ROWS: u32 = 10_000;

    /// The same store, which keeps so much of the history.
    #[must_use]
    pub fn keeping(self, bounds: HistoryBounds) -> Self {
        self.memory.lock().bounds = bounds;
        self
    }

    /// An empty store with a random key.
    ///
    /// # Errors
    ///
    /// The error of the system's source of randomness.
    pub fn new() -> Result<Self, getrandom::Error> {
        Ok(Self::with_key(SecretKey::random()?))
    }

    /// An empty store with this key, for tests that must be deterministic.
    pub fn with_key(key: SecretKey) -> Self {
        Self {
            memory: Arc::new(Mutex::new(Memory {
                key,
                slots: BTreeMap::new(),
                ends: Entries::default(),
                refusals: Entries::default(),
                bounds: HistoryBounds { rows: Self::HISTORY_ROWS, age: None },
                looked: None,
                last_entry: 0,
            })),
            closed: false.into(),
        }
    }

    /// The same memory as the next process would find it.
    #[must_use]
    pub fn reopen(&self) -> Self {
        Self { memory: Arc::clone(&self.memory), closed: false.into() }
    }

    /// A copy of all slots, as they are now.
    #[cfg(feature = "conformance")]
    pub fn copy(&self) -> MemoryBackup {
        MemoryBackup(self.memory.lock().slots.clone())
    }

    /// Puts a copy in the place of the slots that are there, as a restore puts a backup in the place of a
    /// database. The slots that are there count as unreadable if `is_lost`. Returns the highest numbers above
    /// which a slot goes on.
    ///
    /// # Errors
    ///
    /// [`NoNumberLeft`]; nothing has changed then.
    #[cfg(feature = "conformance")]
    pub fn restore(
        &self,
        backup: &MemoryBackup,
        is_lost: bool,
        now: SystemTime,
    ) -> Result<HighestNumbers, NoNumberLeft> {
        let mut memory = self.memory.lock();
        let (mut slots, mut highest) = (backup.0.clone(), HighestNumbers::default());
        for (slot, state) in &mut slots {
            let replaced = memory.slots.get(slot).filter(|_| !is_lost).map(SlotState::highest_numbers);
            let above = HighestNumbers::after_restore(state.highest_numbers(), replaced, now)?;
            state.go_on_above(above);
            highest.mark = highest.mark.max(above.mark);
            highest.epoch = highest.epoch.max(above.epoch);
            highest.longest_lease_ms = highest.longest_lease_ms.max(above.longest_lease_ms);
        }
        memory.slots = slots;
        Ok(highest)
    }

    fn check(&self) -> Result<(), Fatal> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Fatal::Closed { place: "the memory store".into() });
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        Box::pin(async move {
            self.check()?;
            let memory = &mut *self.memory.lock();
            let state = memory.slots.entry(slot).or_default();
            let opened = state.take(writer, memory.key.clone());
            state.visit(visit);
            Ok(opened)
        })
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move {
            self.check()?;
            let memory = &mut *self.memory.lock();
            Ok(batches.iter().map(|batch| memory.commit(batch)).collect())
        })
    }

    fn history(&self, query: HistoryQuery) -> StoreFuture<'_, Result<HistoryPage, HistoryError>> {
        Box::pin(async move {
            self.check()?;
            Ok(self.memory.lock().page(&query))
        })
    }

    fn backup(&self, _: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        let advice = "keep the state in a file of SQLite (sqlite:PATH) to have one";
        Box::pin(async move { Err(BackupError::Unsupported("the memory store", advice)) })
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        Box::pin(async move {
            self.check()?;
            self.closed.store(true, Ordering::Relaxed);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::{Change, NameBuf, OwnerEnd, OwnerId, OwnerRecord, SecretSeed};

    use super::*;
    use crate::{HistoryKind, RefusalRecord, Write};

    /// Commits so many ends of owners, and refusals at these instants, each with a name of so many units.
    async fn commit_refusals(store: &MemoryStore, ats: &[u64], units: usize, ends: u64) {
        let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut drop).await.unwrap();
        let scope = Arc::new(Scope::new("t", "b"));
        let change = |change| Write::Change { scope: Arc::clone(&scope), change };
        let mut writes = Vec::new();
        for number in 0..ends {
            let (owner, since) = (OwnerId::new(number + 1), instant(1));
            let (label, metadata, seed) = ("Ann".into(), None, SecretSeed(7));
            let record = OwnerRecord { owner, label, metadata, ttl_ms: 1000, since, ends: None, seed };
            writes.push(change(Change::OwnerOpened(record)));
            let (reason, at, names) = (OwnerEnd::Ended, instant(1), Vec::new());
            writes.push(change(Change::OwnerEnded { owner, names, reason, at }));
        }
        writes.extend(ats.iter().map(|at| {
            let name = NameBuf::new(&"n".repeat(units)).unwrap();
            let (kind, who, at) = (HistoryKind::Claim, "Bob".into(), instant(*at));
            let record = RefusalRecord { kind, name, mode: None, who, owner: None, since: at, at, count: 1 };
            Write::Refused { scope: Arc::clone(&scope), refusal: Box::new(record) }
        }));
        let (slot, epoch, writer) = (Slot::ONLY, opened.epoch, WriterId(1));
        let batch = CommitBatch { slot, epoch, writer, first_seq: 1, writes };
        assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    }

    fn instant(ms: u64) -> lockhouse_core::Instant {
        lockhouse_core::Instant::from_millis(ms)
    }

    #[tokio::test]
    async fn what_is_too_old_is_forgotten_also_behind_what_a_wrong_clock_has_dated() {
        let store = MemoryStore::new().unwrap().keeping(HistoryBounds::DEFAULT);
        let far = 1 << 50;
        commit_refusals(&store, &[far, 1, 2], 1, 1).await;
        let memory = store.memory.lock();
        let left: Vec<_> = memory.refusals.list.iter().map(|(_, entry)| entry.at.as_millis()).collect();
        assert_eq!((left, memory.ends.list.len(), memory.ends.bytes), (vec![far], 0, 0));
        assert_eq!(memory.refusals.bytes, memory.refusals.list[0].1.bytes());
    }

    /// Names of 16 KiB: those of the refusals that the number of rows allows are far beyond the bytes.
    #[tokio::test]
    async fn refusals_push_nothing_else_out_of_the_memory_beyond_the_bytes_either() {
        let store = MemoryStore::new().unwrap().keeping(HistoryBounds { rows: 100_000, age: None });
        commit_refusals(&store, &[], 1, 500).await;
        for round in 0..20 {
            commit_refusals(&store, &[round; 100], 16 << 10, 0).await;
        }
        {
            let memory = store.memory.lock();
            assert_eq!(memory.ends.list.len(), 500);
            assert!(memory.refusals.bytes <= HISTORY_BYTES - memory.ends.bytes);
            assert!(memory.refusals.bytes > HISTORY_BYTES / 2, "{}", memory.refusals.bytes);
        }
        // What is no refusal takes all but a tenth of it back.
        let bytes = store.memory.lock().ends.bytes / 500;
        commit_refusals(&store, &[], 1, (HISTORY_BYTES / bytes) as u64).await;
        let memory = store.memory.lock();
        let refusals = memory.refusals.list.iter().map(|(_, entry)| entry.at.as_millis());
        assert!(refusals.clone().is_sorted() && refusals.min() > Some(15), "the oldest have gone");
        assert!(memory.refusals.bytes.abs_diff(HISTORY_BYTES / 10) < 32 << 10, "{}", memory.refusals.bytes);
        assert!(memory.ends.bytes + memory.refusals.bytes <= HISTORY_BYTES);
    }

    #[tokio::test]
    async fn a_page_has_refusals_among_all_else_in_the_order_in_which_they_came() {
        let store = MemoryStore::new().unwrap();
        for _ in 0..3 {
            commit_refusals(&store, &[1, 2], 1, 2).await;
        }
        let (scope, filter) = (Scope::new("t", "b"), crate::HistoryFilter::default());
        let query = HistoryQuery { scope, before: Some(11), limit: 7, filter };
        let page = store.history(query).await.unwrap();
        let seqs: Vec<_> = page.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!((seqs, page.next), (vec![10, 9, 8, 7, 6, 5, 4], Some(4)));
    }
}
