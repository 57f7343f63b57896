//! From the outboxes of all buckets to the store: group commit.
//!
//! ```text
//!   bucket ─┐
//!   bucket ─┼─▶ queue ─▶ gather ─▶ one batch ─▶ the store ─▶ buckets: committed
//!   bucket ─┘              │         ▲   │
//!                          │         └───┘ unknown, refused: the same batch again
//!                          └── a fair share of each tenant, partition, bucket
//! ```
//!
//! One commit is under way at a time. Changes that come meanwhile are gathered for the next.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse_store::{
    CommitBatch, CommitOutcome, Fatal, HeldList, RefusalRecord, Scope, Slot, Store, TokenMark, Write,
    WriterId,
};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use crate::engine::bucket::execute::first;
use crate::engine::bucket::shared::Shared;
use crate::engine::commit::batch::{Batch, Buckets};
use crate::engine::commit::commit_delay::CommitDelay;
use crate::engine::commit::refusals::RefusalQueue;
use crate::engine::commit::store_state::{Left, StoreState, StoreStatus};
use crate::engine::sync::{AtomicIsize, AtomicU64, Mutex};

/// How long to wait before a batch is sent again: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Why a store is unavailable whose answers are lost.
const NO_ANSWER: &str = "the store does not answer; it is asked again";

/// So many answers to one batch may be lost before clients are turned away.
const ANSWERS_LOST: u32 = 4;

/// The task does not wait for any number of commands.
const NOT_WANTED: isize = isize::MAX;

/// The way to the store of one house.
#[derive(Debug)]
pub(crate) struct Pipeline {
    store: Arc<dyn Store>,
    slot: Slot,
    epoch: u64,
    writer: WriterId,
    queue: Mutex<Queue>,
    wake: Notify,
    /// How many commands are to be sent. Below 0 for moments: a command may be taken before it is reported.
    unsent: AtomicIsize,
    /// The task is to be woken once there are so many.
    wanted: AtomicIsize,
    /// The state of the store, as the buckets see it, too.
    status: Arc<StoreStatus>,
    /// The number of the task's first write.
    next_seq: AtomicU64,
    /// Refusals that go with the next commits.
    refusals: RefusalQueue,
}

#[derive(Debug, Default)]
struct Queue {
    /// The buckets that have something to send, each once, in the order in which it is their turn.
    buckets: Buckets,
    /// Writes that belong to no bucket that is in use.
    loose: Vec<Write>,
    stop: Option<Stop>,
}

/// How the pipeline ends, once nothing is left to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The last user of the house has gone.
    Abandoned,
    /// The house is closed.
    Closed(LastWrite),
    /// The slot is another node's: nothing that is left to send would be kept.
    Lost,
}

/// What a closed house leaves in the store for the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastWrite {
    /// The stop was clean.
    Clean,
    /// These web locks are held.
    Holding(HeldList),
    /// It is not known who holds what.
    Unlisted,
}

impl LastWrite {
    /// Of buckets that grant nothing any more, and are all that there are.
    pub(crate) fn of(buckets: &[Arc<Shared>]) -> Self {
        let held: Vec<_> = buckets.iter().filter(|bucket| bucket.is_held_remotely()).collect();
        if held.is_empty() {
            return Self::Clean;
        }
        let listed = held.into_iter().map(Shared::held_list).collect::<Option<Vec<_>>>();
        listed.and_then(HeldList::new).map_or(Self::Unlisted, Self::Holding)
    }

    /// The same for people.
    pub(crate) fn left(&self) -> Left {
        match self {
            Self::Clean => Left::Nothing,
            Self::Holding(held) => Left::Listed { locks: held.locks() },
            Self::Unlisted => Left::Unknown,
        }
    }
}

impl Pipeline {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        slot: Slot,
        epoch: u64,
        writer: WriterId,
        status: Arc<StoreStatus>,
    ) -> Self {
        Self {
            store,
            slot,
            epoch,
            writer,
            queue: Mutex::default(),
            wake: Notify::new(),
            unsent: AtomicIsize::new(0),
            wanted: AtomicIsize::new(NOT_WANTED),
            status,
            next_seq: AtomicU64::new(1),
            refusals: RefusalQueue::default(),
        }
    }

    /// Queues a bucket that has something to send. Called without any mutex.
    pub(crate) fn enqueue(&self, bucket: Arc<Shared>) {
        let mut queue = self.queue.lock();
        // The check is under the mutex: at the end, the writes that are in the queue by then are dropped.
        if !self.status.is_over() {
            queue.buckets.push_back(bucket);
            self.wake.notify_one();
        }
    }

    /// So many commands more are to be sent. Called without any mutex, after [`enqueue`](Self::enqueue).
    pub(crate) fn has_more(&self, commands: usize) {
        let more = commands.cast_signed();
        // Here it is first `unsent`, then `wanted`; the task does it the other way round. Only one order for
        // all lets one of the two see the other's update, so that the task does not sleep while the changes
        // that it waits for are there.
        if self.unsent.fetch_add(more, Ordering::SeqCst) + more >= self.wanted.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// The last user of a bucket without durable state has gone. Called before the bucket can come anew.
    /// The mark has risen with it.
    pub(crate) fn bucket_dropped(&self, scope: Arc<Scope>, mark: Option<TokenMark>) {
        self.send_loose(Write::BucketDropped { scope, mark });
    }

    /// No client of before the start will come back any more.
    pub(crate) fn recovery_completed(&self) {
        self.send_loose(Write::RecoveryCompleted);
    }

    /// Something was refused in a bucket of that tenant, which goes into the history with the next commit.
    pub(crate) fn refused(&self, scope: &Arc<Scope>, tenant: &str, record: RefusalRecord) {
        let added = self.refusals.add(scope, tenant, record, Instant::now());
        if added.left_out > 0 {
            self.note_left_out(added.left_out);
        }
        if added.is_sooner {
            self.wake.notify_one();
        }
    }

    #[cold]
    fn note_left_out(&self, count: u64) {
        if let Some(meters) = &self.status.meters {
            meters.note_left_out(count);
        }
    }

    /// How many refusals are in no history, as too many came.
    pub(crate) fn refusals_left_out(&self) -> u64 {
        self.refusals.left_out()
    }

    fn send_loose(&self, write: Write) {
        if self.status.is_over() {
            return;
        }
        self.queue.lock().loose.push(write);
        self.wake.notify_one();
    }

    /// Ends the task once everything is sent.
    pub(crate) fn stop(&self, stop: Stop) {
        self.queue.lock().stop.get_or_insert(stop);
        self.wake.notify_one();
    }

    /// The slot, its epoch and its writer.
    pub(crate) fn life(&self) -> String {
        format!("{}-{}-{:016x}", self.slot.get(), self.epoch, self.writer.0)
    }

    /// Ends the task at once, whatever is left to send.
    pub(crate) fn lose(&self) {
        self.queue.lock().stop = Some(Stop::Lost);
        self.wake.notify_one();
    }

    /// The state of the store.
    pub(crate) fn status(&self) -> &StoreStatus {
        &self.status
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Makes writes durable before the task runs. A store that cannot write is waited for as long as callers
    /// under way wait for it.
    pub(crate) async fn begin_with(&self, writes: Vec<Write>) -> Result<(), StoreState> {
        if writes.is_empty() {
            return Ok(());
        }
        let mut next_seq = self.next_seq.load(Ordering::Acquire);
        let committed = first(self.commit(&mut next_seq, writes), self.status.given_up()).await;
        let committed = committed.unwrap_or_else(|()| Err(self.status.get()));
        self.next_seq.store(next_seq, Ordering::Release);
        committed
    }

    /// The work of the task: it commits until it is stopped, or until commits are of no more use. `is_over`
    /// then notifies every bucket.
    pub(crate) async fn run(self: Arc<Self>, is_over: impl FnOnce()) {
        let ending = Ending { pipeline: self.clone(), is_over: Some(is_over) };
        let mut next_seq = self.next_seq.load(Ordering::Acquire);
        let mut delay = CommitDelay::default();
        let over = loop {
            match self.next(&mut delay).await {
                Ok(batch) => {
                    let (start, writes) = (Instant::now(), batch.writes.len());
                    let committed = match batch.refusals_alone {
                        0 => self.commit(&mut next_seq, batch.writes).await,
                        count => self.commit_refusals(&mut next_seq, batch.writes, count).await,
                    };
                    if let Err(over) = committed {
                        break over;
                    }
                    let others = self.unsent.load(Ordering::Acquire).max(0).cast_unsigned();
                    let length = start.elapsed();
                    delay.has_committed(batch.commands, others, length);
                    if let Some(meters) = &self.status.meters {
                        meters.note_commit(writes, length);
                    }
                    batch.buckets.iter().for_each(Shared::committed);
                }
                Err(stop) => break self.finish(&mut next_seq, stop).await,
            }
        };
        ending.with(over);
    }

    /// The next batch, or how to stop once there is none.
    async fn next(&self, delay: &mut CommitDelay) -> Result<Batch, Stop> {
        loop {
            let woken = self.wake.notified();
            let (is_empty, stop) = {
                let queue = self.queue.lock();
                (queue.buckets.is_empty() && queue.loose.is_empty(), queue.stop.clone())
            };
            match stop {
                Some(Stop::Lost) => return Err(Stop::Lost),
                Some(stop) if is_empty => return Err(stop),
                None if is_empty => {
                    let Some(until) = self.refusals.patient_until() else {
                        woken.await;
                        continue;
                    };
                    if timeout_at(until, woken).await.is_err() {
                        let mut batch = Batch::default();
                        let taken = self.refusals.take_alone(Instant::now(), &mut batch.writes);
                        if taken > 0 {
                            return Ok(Batch { refusals_alone: taken, ..batch });
                        }
                    }
                    continue;
                }
                None => self.gather_company(delay).await,
                Some(_) => {}
            }
            let mut batch = self.gather();
            if !batch.writes.is_empty() {
                self.refusals.take(Instant::now(), &mut batch.writes);
                return Ok(batch);
            }
        }
    }

    /// Waits a moment for further commands if they are likely to come, and if that is worth it.
    async fn gather_company(&self, delay: &mut CommitDelay) {
        let Some((commands, longest)) = delay.patience() else { return };
        let wanted = commands.cast_signed();
        let has_come = async {
            loop {
                let woken = self.wake.notified();
                // After `wanted` is stored: see `has_more`.
                if self.unsent.load(Ordering::SeqCst) >= wanted {
                    return;
                }
                woken.await;
            }
        };
        self.wanted.store(wanted, Ordering::SeqCst);
        let in_vain = timeout(longest, has_come).await.is_err();
        self.wanted.store(NOT_WANTED, Ordering::Release);
        delay.has_waited(in_vain);
    }

    /// Takes a share of each tenant in turn, and there of each partition, and there of each bucket, until all
    /// have given everything or the commit is full. A bucket that has more waits behind those whose turn has
    /// not come.
    fn gather(&self) -> Batch {
        let mut buckets = std::mem::take(&mut self.queue.lock().buckets);
        let (mut batch, most) = (Batch::default(), self.store.batch_cost());
        if buckets.len() == 1 {
            // No other tenant takes turns with it.
            batch.take_of_partition(&mut buckets, most);
        } else {
            buckets = batch.take_in_turns(buckets, most);
        }
        self.unsent.fetch_sub(batch.commands.cast_signed(), Ordering::AcqRel);
        debug_assert!(
            buckets.is_empty() || batch.cost >= most,
            "a bucket waits for the next commit only if this one is full"
        );
        let mut queue = self.queue.lock();
        buckets.append(&mut queue.buckets);
        queue.buckets = buckets;
        // The end of a bucket comes before the changes that its successor of the same name has sent, which
        // may be in this batch.
        batch.writes.splice(..0, queue.loose.drain(..));
        batch
    }

    /// Has the writes committed, however long that takes.
    async fn commit(&self, next_seq: &mut u64, writes: Vec<Write>) -> Result<(), StoreState> {
        self.try_commit(next_seq, writes, false).await.map(drop)
    }

    /// Has the writes committed, or gives them up if they can be and the store refuses them at once. Returns
    /// whether they are committed.
    async fn try_commit(
        &self,
        next_seq: &mut u64,
        writes: Vec<Write>,
        can_be_given_up: bool,
    ) -> Result<bool, StoreState> {
        let (slot, epoch, writer, first_seq) = (self.slot, self.epoch, self.writer, *next_seq);
        let batch = Arc::new(CommitBatch { slot, epoch, writer, first_seq, writes });
        let mut pause = RETRY.0;
        let mut lost = 0;
        let begun = Instant::now();
        loop {
            let outcomes = self.answer(self.store.commit(vec![batch.clone()])).await;
            let outcomes = outcomes.map_err(StoreState::Failed)?;
            let why = match outcomes.into_iter().next().unwrap_or(CommitOutcome::Unknown) {
                CommitOutcome::Committed => break,
                CommitOutcome::Fenced => return Err(StoreState::Fenced),
                CommitOutcome::Damaged(fatal) => return Err(StoreState::Failed(fatal)),
                CommitOutcome::Unknown => None,
                // After an answer that was lost the store may have them.
                CommitOutcome::Refused(_) if can_be_given_up && lost == 0 => return Ok(false),
                CommitOutcome::Refused(why) => Some(why),
            };
            lost += u32::from(why.is_none());
            if why.is_some() || lost > ANSWERS_LOST || begun.elapsed() >= self.status.timeout {
                let why = why.as_ref().map_or_else(|| NO_ANSWER.to_owned(), ToString::to_string);
                self.status.set(StoreState::Unavailable { why, retry_after: pause });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
        debug_assert!(batch.last_seq() + 1 >= *next_seq, "sequence numbers never fall");
        *next_seq = batch.last_seq() + 1;
        self.note_leases(&batch);
        self.status.set(StoreState::Serving);
        Ok(true)
    }

    /// The answer of the store, however long that takes. Until it comes, a store that takes too long is
    /// unavailable: it may have stopped working.
    async fn answer<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        if let Ok(answer) = timeout(self.status.timeout, &mut answer).await {
            return answer;
        }
        let why =
            format!("the store has not answered for {:?}; its answer is waited for", self.status.timeout);
        self.status.set(StoreState::Unavailable { why, retry_after: RETRY.1 });
        answer.await
    }

    fn note_leases(&self, batch: &CommitBatch) {
        for write in &batch.writes {
            if let Write::LongestLease { ms } = write {
                self.status.note_lease(*ms);
            }
        }
    }

    /// Writes what is still gathered for its minute, in one commit: a stop is not to take long because many
    /// were refused. A disk that is nearly full may have no more space than for the last write, so that what
    /// is refused is given up.
    async fn write_refusals(&self, next_seq: &mut u64) -> Result<(), StoreState> {
        let mut writes = Vec::new();
        let (taken, left_out) = self.refusals.take_last(Instant::now(), &mut writes);
        if left_out > 0 {
            self.note_left_out(left_out);
        }
        if writes.is_empty() { Ok(()) } else { self.commit_refusals(next_seq, writes, taken).await }
    }

    /// Commits so many refusals, which are left out if the store refuses them.
    async fn commit_refusals(
        &self,
        next_seq: &mut u64,
        writes: Vec<Write>,
        count: u64,
    ) -> Result<(), StoreState> {
        if !self.try_commit(next_seq, writes, true).await? {
            self.refusals.leave_out(count);
            self.note_left_out(count);
        }
        Ok(())
    }

    async fn finish(&self, next_seq: &mut u64, stop: Stop) -> StoreState {
        let last = match stop {
            Stop::Closed(last) => last,
            Stop::Abandoned => return StoreState::Closed(Left::Unknown),
            Stop::Lost => return StoreState::Fenced,
        };
        let left = last.left();
        let write = match last {
            LastWrite::Clean => Write::StoppedClean,
            LastWrite::Holding(held) => Write::StoppedHolding { held: Some(held) },
            LastWrite::Unlisted => Write::StoppedHolding { held: None },
        };
        if let Err(over) = self.write_refusals(next_seq).await {
            return over;
        }
        if let Err(over) = self.commit(next_seq, vec![write]).await {
            return over;
        }
        match self.answer(self.store.close()).await {
            Ok(()) => StoreState::Closed(left),
            Err(fatal) => StoreState::Failed(fatal),
        }
    }
}

/// Notifies all buckets of the end, also if a runtime ends and takes the task with it.
struct Ending<F: FnOnce()> {
    pipeline: Arc<Pipeline>,
    is_over: Option<F>,
}

impl<F: FnOnce()> Ending<F> {
    fn with(self, state: StoreState) {
        self.pipeline.status.set(state);
    }
}

/// Lets those go on that wait for the end, also if a waker of a user panics before.
struct Ended<'a>(&'a StoreStatus);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<F: FnOnce()> Drop for Ending<F> {
    fn drop(&mut self) {
        let place = "the way to the store".into();
        let why = "the runtime in which the house was opened has ended".into();
        self.pipeline.status.set(StoreState::Failed(Fatal::Io { place, why }));
        // The waiting writes hold the house, which holds the pipeline.
        let left = std::mem::take(&mut *self.pipeline.queue.lock());
        let ended = Ended(&self.pipeline.status);
        if let Some(is_over) = self.is_over.take() {
            is_over();
        }
        drop(ended);
        drop(left);
    }
}
