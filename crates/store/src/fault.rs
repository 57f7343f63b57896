//! A store that fails by a seed, as networks and disks do.

use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

use crate::{
    BackupError, CommitBatch, CommitOutcome, Fatal, HistoryError, HistoryPage, HistoryQuery, Opened,
    RecoveredRow, Slot, Store, StoreFuture, StoreUnavailable, TakeError, WriterId,
};

/// The rate of each fault, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// A batch is stored, but its answer is lost: `Unknown`.
    pub answer_lost: u16,
    /// A batch is lost on its way: `Unknown`.
    pub batch_lost: u16,
    /// A batch arrives, if at all, only with some later call, perhaps of another epoch: `Unknown`.
    pub late: u16,
    /// A batch is refused: `Refused`.
    pub refused: u16,
    /// Another writer takes the slot just before a batch: `Fenced`.
    pub fenced: u16,
    /// A call takes longer than others.
    pub stalled: u16,
    /// A slot cannot be taken, though its epoch may grow.
    pub take_failed: u16,
}

impl Faults {
    /// No faults.
    pub const NONE: Self =
        Self { answer_lost: 0, batch_lost: 0, late: 0, refused: 0, fenced: 0, stalled: 0, take_failed: 0 };

    /// Every fault now and then.
    pub const SOME: Self = Self {
        answer_lost: 40,
        batch_lost: 40,
        late: 40,
        refused: 40,
        fenced: 10,
        stalled: 40,
        take_failed: 100,
    };
}

/// How many faults there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCount {
    /// Answers lost.
    pub answers_lost: u64,
    /// Batches lost.
    pub batches_lost: u64,
    /// Batches that came late, or never.
    pub late: u64,
    /// Batches refused.
    pub refused: u64,
    /// Slots taken by another writer.
    pub fenced: u64,
    /// Calls that took longer.
    pub stalled: u64,
    /// Slots that could not be taken.
    pub takes_failed: u64,
}

impl FaultCount {
    /// All of them together.
    pub fn total(&self) -> u64 {
        self.answers_lost
            + self.batches_lost
            + self.late
            + self.refused
            + self.fenced
            + self.stalled
            + self.takes_failed
    }
}

/// A store in front of another store that fails by a seed: the same calls fail in the same way each time.
///
/// The store stands for the network, too: it outlives its callers, and a batch that it holds back may arrive
/// after the caller is gone.
/// A call that stalls is pending for some polls and wakes its task each time, so that no clock is needed.
pub struct FaultStore {
    inner: Arc<dyn Store>,
    state: Mutex<FaultState>,
}

#[derive(Debug)]
struct FaultState {
    faults: Faults,
    random: Xoshiro256PlusPlus,
    count: FaultCount,
    /// The batches that are still on their way.
    late: Vec<Arc<CommitBatch>>,
}

/// The delivery of a batch.
enum Delivery {
    Through,
    AnswerLost,
    Lost,
    Late,
    Refused,
    Fenced(WriterId),
}

/// The most polls for which a call stalls.
const LONGEST_STALL: u64 = 20;

impl FaultStore {
    /// The store `inner` with these faults.
    pub fn new(inner: Arc<dyn Store>, seed: u64, faults: Faults) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let state = FaultState { faults, random, count: FaultCount::default(), late: Vec::new() };
        Self { inner, state: Mutex::new(state) }
    }

    /// Injects other faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// The faults so far.
    pub fn count(&self) -> FaultCount {
        self.state.lock().count
    }

    async fn stall(&self) {
        let mut polls = self.state.lock().stall();
        poll_fn(|context| {
            if polls == 0 {
                return Poll::Ready(());
            }
            polls -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Lets some of the late batches arrive; their outcomes are dropped.
    async fn deliver(&self) -> Result<(), Fatal> {
        let arrived = self.state.lock().arrivals();
        if !arrived.is_empty() {
            self.inner.commit(arrived).await?;
        }
        Ok(())
    }

    async fn pass(&self, batch: &Arc<CommitBatch>) -> Result<CommitOutcome, Fatal> {
        let delivery = self.state.lock().delivery();
        match delivery {
            Delivery::Through => self.send(batch).await,
            Delivery::AnswerLost => self.send(batch).await.map(|_| CommitOutcome::Unknown),
            Delivery::Lost => Ok(CommitOutcome::Unknown),
            Delivery::Late => {
                self.state.lock().late.push(Arc::clone(batch));
                Ok(CommitOutcome::Unknown)
            }
            Delivery::Refused => Ok(CommitOutcome::Refused(away())),
            Delivery::Fenced(writer) => {
                // If the slot cannot be taken, no writer is fenced.
                let _ = self.inner.take_slot(batch.slot, writer, &mut drop).await;
                self.send(batch).await
            }
        }
    }

    async fn send(&self, batch: &Arc<CommitBatch>) -> Result<CommitOutcome, Fatal> {
        let outcomes = self.inner.commit(vec![Arc::clone(batch)]).await?;
        Ok(outcomes.into_iter().next().unwrap_or(CommitOutcome::Unknown))
    }
}

impl FaultState {
    fn delivery(&mut self) -> Delivery {
        let faults = self.faults;
        if self.happens(faults.answer_lost) {
            self.count.answers_lost += 1;
            Delivery::AnswerLost
        } else if self.happens(faults.batch_lost) {
            self.count.batches_lost += 1;
            Delivery::Lost
        } else if self.happens(faults.late) {
            self.count.late += 1;
            Delivery::Late
        } else if self.happens(faults.refused) {
            self.count.refused += 1;
            Delivery::Refused
        } else if self.happens(faults.fenced) {
            self.count.fenced += 1;
            Delivery::Fenced(WriterId(self.random.next_u64()))
        } else {
            Delivery::Through
        }
    }

    /// True so many times out of a thousand.
    fn happens(&mut self, permille: u16) -> bool {
        self.random.random_ratio(permille.into(), 1000)
    }

    fn stall(&mut self) -> u64 {
        if !self.happens(self.faults.stalled) {
            return 0;
        }
        self.count.stalled += 1;
        self.random.random_range(1..=LONGEST_STALL)
    }

    fn arrivals(&mut self) -> Vec<Arc<CommitBatch>> {
        let Self { late, random, .. } = self;
        late.extract_if(.., |_| random.random_bool(0.5)).collect()
    }

    fn take_fails(&mut self) -> Option<bool> {
        let fails = self.happens(self.faults.take_failed);
        self.count.takes_failed += u64::from(fails);
        fails.then(|| self.random.random_bool(0.5))
    }
}

impl Store for FaultStore {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        Box::pin(async move {
            self.stall().await;
            self.deliver().await?;
            let fails = self.state.lock().take_fails();
            match fails {
                None => self.inner.take_slot(slot, writer, visit).await,
                Some(only_the_answer) => {
                    if only_the_answer {
                        self.inner.take_slot(slot, writer, &mut drop).await?;
                    }
                    Err(TakeError::Unavailable(away()))
                }
            }
        })
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move {
            self.stall().await;
            self.deliver().await?;
            let mut outcomes = Vec::with_capacity(batches.len());
            for batch in &batches {
                outcomes.push(self.pass(batch).await?);
            }
            self.stall().await;
            Ok(outcomes)
        })
    }

    fn history(&self, query: HistoryQuery) -> StoreFuture<'_, Result<HistoryPage, HistoryError>> {
        self.inner.history(query)
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        self.inner.backup(to)
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        self.inner.close()
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore").field("inner", &self.inner).field("count", &self.count()).finish()
    }
}

fn away() -> StoreUnavailable {
    StoreUnavailable::Away { place: "the store".into(), why: "by the seed".into() }
}
