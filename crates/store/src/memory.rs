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
    history: VecDeque<(Arc<Scope>, HistoryEntry)>,
    history_bytes: usize,
    /// How many of the entries are refusals.
    refusals: usize,
    bounds: HistoryBounds,
    /// When entries were last looked for that are too old.
    looked: Option<Instant>,
    last_entry: u64,
}

/// The entries of the history take no more than so many bytes.
const HISTORY_BYTES: usize = 16 << 20;

/// The time between two looks for entries that are too old.
const AGE_CHECK: Duration = Duration::from_secs(60);

impl Memory {
    fn commit(&mut self, batch: &CommitBatch) -> CommitOutcome {
        let Self { slots, history, .. } = self;
        let Some(state) = slots.get_mut(&batch.slot) else { return CommitOutcome::Fenced };
        let before = history.len();
        let outcome = state.commit(batch, &mut |scope, entry| history.push_back((Arc::clone(scope), entry)));
        for (_, entry) in self.history.range_mut(before..) {
            self.last_entry += 1;
            entry.seq = self.last_entry;
            self.history_bytes += entry.bytes();
            self.refusals += usize::from(entry.end == HistoryEnd::Refused);
        }
        self.prune();
        outcome
    }

    /// Refusals push nothing out but refusals.
    fn prune(&mut self) {
        while self.refusals > self.bounds.refusals() as usize {
            let first = self.history.iter().position(|(_, entry)| entry.end == HistoryEnd::Refused);
            first.into_iter().for_each(|at| self.forget(at));
        }
        while self.history.len() - self.refusals > self.bounds.rows as usize
            || self.history_bytes > HISTORY_BYTES
        {
            self.forget(0);
        }
        let is_time_to_look = self.looked.is_none_or(|looked| looked.elapsed() >= AGE_CHECK);
        if is_time_to_look && let Some(oldest) = self.bounds.oldest(SystemTime::now()) {
            self.looked = Some(Instant::now());
            self.forget_older(oldest);
        }
    }

    /// Wherever they are: a clock may have been wrong for a while.
    fn forget_older(&mut self, oldest: lockhouse_core::Instant) {
        self.history.retain(|(_, entry)| {
            let is_old = entry.at < oldest;
            if is_old {
                self.history_bytes -= entry.bytes();
                self.refusals -= usize::from(entry.end == HistoryEnd::Refused);
            }
            !is_old
        });
    }

    fn forget(&mut self, at: usize) {
        if let Some((_, entry)) = self.history.remove(at) {
            self.history_bytes -= entry.bytes();
            self.refusals -= usize::from(entry.end == HistoryEnd::Refused);
        }
    }

    fn page(&self, query: &HistoryQuery) -> HistoryPage {
        let before = query.before.unwrap_or(u64::MAX);
        let older = self.history.iter().rev().filter(|(_, entry)| entry.seq < before);
        let mut page = HistoryPage::default();
        for (looked_at, (scope, entry)) in older.enumerate() {
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
                history: VecDeque::new(),
                history_bytes: 0,
                refusals: 0,
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
    use lockhouse_core::NameBuf;

    use super::*;
    use crate::{HistoryKind, RefusalRecord, Write};

    #[tokio::test]
    async fn what_is_too_old_is_forgotten_also_behind_what_a_wrong_clock_has_dated() {
        let store = MemoryStore::new().unwrap().keeping(HistoryBounds::DEFAULT);
        let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut drop).await.unwrap();
        let scope = Arc::new(Scope::new("t", "b"));
        let refused = |at| {
            let at = lockhouse_core::Instant::from_millis(at);
            let (kind, name, who) = (HistoryKind::Claim, NameBuf::new("n").unwrap(), "Bob".into());
            let record = RefusalRecord { kind, name, mode: None, who, owner: None, since: at, at, count: 1 };
            Write::Refused { scope: Arc::clone(&scope), refusal: Box::new(record) }
        };
        let far = 1 << 50;
        let batch = CommitBatch {
            slot: Slot::ONLY,
            epoch: opened.epoch,
            writer: WriterId(1),
            first_seq: 1,
            writes: vec![refused(far), refused(1), refused(2)],
        };
        assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
        let memory = store.memory.lock();
        let left: Vec<_> = memory.history.iter().map(|(_, entry)| entry.at.as_millis()).collect();
        assert_eq!((left, memory.refusals), (vec![far], 1));
        assert_eq!(memory.history_bytes, memory.history[0].1.bytes());
    }
}
