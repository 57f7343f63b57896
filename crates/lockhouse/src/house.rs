//! The house: all buckets of one process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::SystemTime;

use foldhash::fast::RandomState;
use lockhouse_core::{Command, Instant, Limits, LockManager};
use lockhouse_store::{Scope, SecretKey};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::bucket::{Bucket, Shared};
use crate::clock::{Clock, TICK};
use crate::open::Options;
use crate::pipeline::{Pipeline, Stop};
use crate::ticket::Tickets;

/// What separates the locks of strangers: two agents meet exactly if their keys are equal.
///
/// The bucket is the specification's storage bucket, the partition the finer split that storage makes, such as by top-level site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketKey {
    /// The name of the bucket.
    pub bucket: String,
    /// The partition, empty if there is none.
    pub partition: String,
}

impl From<&str> for BucketKey {
    fn from(bucket: &str) -> Self {
        Self { bucket: bucket.to_owned(), partition: String::new() }
    }
}

impl BucketKey {
    /// As a store knows it, for which every partition is a tenant of its own.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.partition.as_str(), self.bucket.as_str())
    }
}

impl From<&Scope> for BucketKey {
    fn from(scope: &Scope) -> Self {
        Self { bucket: scope.bucket.to_string(), partition: scope.tenant.to_string() }
    }
}

/// All buckets of one process. Cheap to clone; every clone is the same house.
///
/// [`new`](Self::new) gives one in memory, [`open`](Self::open) one over a store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let house = lockhouse::House::new();
/// let agent = house.bucket("default").agent("worker-1")?;
/// let lock = agent.locks().request("report").await?;
/// println!("token {}", lock.fencing_token());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct House {
    pub(crate) inner: Arc<Inner>,
    /// Buckets that must not be forgotten though nobody uses them.
    #[expect(dead_code, reason = "kept for its end")]
    keeper: Arc<Keeper>,
}

/// Apart from [`Inner`], which the buckets keep alive.
#[derive(Debug, Default)]
struct Keeper(Mutex<HashMap<BucketKey, Arc<Shared>>>);

#[derive(Debug)]
pub(crate) struct Inner {
    limits: Limits,
    pub(crate) clock: Clock,
    registry: Mutex<Registry>,
    ticking: Mutex<Ticking>,
    /// The way to the store, if there is one.
    pipeline: Option<Arc<Pipeline>>,
    key: OnceLock<SecretKey>,
    /// None if web locks cannot be brought back after a restart.
    tickets: Option<Tickets>,
    keeper: Weak<Keeper>,
    recovery: Recovery,
    is_closing: AtomicBool,
}

/// What is left of the recovery from a crash.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// How many buckets recover.
    count: AtomicUsize,
    /// Until when buckets recover that nothing is kept of.
    of_new_until: Option<Instant>,
}

impl Recovery {
    /// Of so many buckets, and of new ones until then.
    pub(crate) fn of(count: usize, of_new_until: Option<Instant>) -> Self {
        Self { count: count.into(), of_new_until }
    }
}

#[derive(Debug, Default)]
struct Registry {
    buckets: HashMap<BucketKey, Weak<Shared>>,
    /// How many there are in each partition that has any.
    counts: HashMap<String, usize>,
    marks: Marks,
}

/// The highest token of any bucket that was dropped, by partition: whoever comes anew there starts above it, and is told nothing of others.
#[derive(Debug, Default)]
struct Marks {
    of: HashMap<String, u64>,
    /// That of all others.
    floor: u64,
}

/// Of so many partitions the marks are remembered apart.
const PARTITIONS_MARKED: usize = 100_000;

impl Marks {
    fn above(&self, partition: &str) -> u64 {
        self.of.get(partition).copied().unwrap_or_default().max(self.floor)
    }

    fn raise(&mut self, partition: &str, mark: u64) {
        if let Some(known) = self.of.get_mut(partition) {
            *known = mark.max(*known);
        } else if mark <= self.floor {
            // It would say nothing.
        } else if self.of.len() < PARTITIONS_MARKED {
            self.of.insert(partition.to_owned(), mark);
        } else {
            self.floor = mark;
        }
    }
}

/// The buckets that have deadlines, and whether the task that watches them runs.
#[derive(Debug, Default)]
struct Ticking {
    buckets: Vec<Weak<Shared>>,
    /// Those of them with which the present tick is done, while it is not with others.
    done: Vec<Weak<Shared>>,
    running: bool,
    /// The latest runtime in which a lease or a longest hold was asked for.
    runtime: Option<Handle>,
}

impl Default for House {
    fn default() -> Self {
        Self::new()
    }
}

impl House {
    /// An empty house with the default bounds.
    pub fn new() -> Self {
        Self::with_limits(Limits::DEFAULT)
    }

    /// An empty house with bounds of one's own, which hold for each bucket.
    pub fn with_limits(limits: Limits) -> Self {
        Self::with_clock(limits, Clock::new())
    }

    /// An empty house in memory, with bounds or a clock of one's own.
    pub fn with_options(options: &Options) -> Self {
        let house = Self::with_clock(options.bounds(), options.new_clock());
        options.drive(&house);
        house
    }

    fn with_clock(limits: Limits, clock: Clock) -> Self {
        Self::over(limits, clock, None, None, Recovery::default(), 0)
    }

    pub(crate) fn over(
        limits: Limits,
        clock: Clock,
        store: Option<(Arc<Pipeline>, SecretKey)>,
        tickets: Option<Tickets>,
        recovery: Recovery,
        token_mark: u64,
    ) -> Self {
        let keeper = Arc::new(Keeper::default());
        let (pipeline, key) = store.unzip();
        let inner = Inner {
            limits,
            clock,
            registry: Mutex::new(Registry {
                marks: Marks { floor: token_mark, ..Marks::default() },
                ..Registry::default()
            }),
            ticking: Mutex::default(),
            pipeline,
            key: key.map_or_else(OnceLock::new, OnceLock::from),
            tickets,
            keeper: Arc::downgrade(&keeper),
            recovery,
            is_closing: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner), keeper }
    }

    /// The bucket with that key, which begins with its first use and is forgotten after its last.
    pub fn bucket(&self, key: impl Into<BucketKey>) -> Bucket {
        self.bucket_if_room(key, usize::MAX).expect("there is always room for one more")
    }

    /// The bucket with that key; none if nobody uses it, and `most` others of the same partition are in use already.
    ///
    /// ```
    /// let house = lockhouse::House::new();
    /// let one = house.bucket_if_room("one", 1).unwrap();
    /// assert!(house.bucket_if_room("two", 1).is_none());
    /// assert!(house.bucket_if_room("one", 1).is_some());
    /// ```
    pub fn bucket_if_room(&self, key: impl Into<BucketKey>, most: usize) -> Option<Bucket> {
        let key = key.into();
        loop {
            let mut registry = self.inner.registry.lock();
            let Some(known) = registry.buckets.get(&key) else {
                if registry.count(&key.partition) >= most {
                    return None;
                }
                let bucket = self.inner.new_bucket(key.clone(), registry.marks.above(&key.partition));
                registry.insert(key, &bucket);
                drop(registry);
                self.inner.begin(&bucket);
                return Some(Bucket(bucket));
            };
            if let Some(bucket) = known.upgrade() {
                return Some(Bucket(bucket));
            }
            // Its last user is just leaving, on another thread, and will hand in the token mark.
            drop(registry);
            std::thread::yield_now();
        }
    }

    /// Every bucket that is in use.
    pub fn buckets(&self) -> Vec<Bucket> {
        self.inner.buckets().into_iter().map(Bucket).collect()
    }

    /// Now, by the clock that leases run by.
    pub fn now(&self) -> Instant {
        self.inner.clock.now()
    }

    /// When that was, or will be, by the calendar.
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.inner.clock.wall(at)
    }
}

impl Registry {
    fn insert(&mut self, key: BucketKey, bucket: &Arc<Shared>) {
        *self.counts.entry(key.partition.clone()).or_default() += 1;
        self.buckets.insert(key, Arc::downgrade(bucket));
    }

    fn remove(&mut self, key: &BucketKey) {
        self.buckets.remove(key);
        if let Some(count) = self.counts.get_mut(&key.partition) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.partition);
            }
        }
    }

    fn count(&self, partition: &str) -> usize {
        self.counts.get(partition).copied().unwrap_or_default()
    }
}

impl Inner {
    pub(crate) fn pipeline(&self) -> Option<&Arc<Pipeline>> {
        self.pipeline.as_ref()
    }

    pub(crate) fn tickets(&self) -> Option<&Tickets> {
        self.tickets.as_ref()
    }

    /// The key that secrets are derived from.
    pub(crate) fn key(&self) -> Result<&SecretKey, getrandom::Error> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = SecretKey::random()?;
        Ok(self.key.get_or_init(|| key))
    }

    pub(crate) fn buckets(&self) -> Vec<Arc<Shared>> {
        self.registry.lock().buckets.values().filter_map(Weak::upgrade).collect()
    }

    fn new_bucket(self: &Arc<Self>, key: BucketKey, token_mark: u64) -> Arc<Shared> {
        let mut manager = LockManager::with_limits(RandomState::default(), self.limits);
        manager.continue_tokens_above(token_mark);
        if let Some(until) = self.recovery.of_new_until.filter(|until| *until > self.clock.now()) {
            manager.begin_recovery(until);
            self.recovery.count.fetch_add(1, Ordering::AcqRel);
        }
        Arc::new(Shared::new(key, self.clone(), manager))
    }

    /// What a new bucket has to hear, without any mutex.
    fn begin(&self, bucket: &Arc<Shared>) {
        if self.is_closing.load(Ordering::Acquire) {
            bucket.handle(Command::Close);
            // Whoever waits in a bucket that came too late to be told of the loss would wait for ever.
            if let Some(why) = self.why_over() {
                bucket.is_over(Some(why));
            }
        }
        if self.recovery.of_new_until.is_some() {
            // Tells the ticker of the end of its recovery, during which it must not be forgotten.
            bucket.with(|_| ());
            self.keep(bucket);
        }
    }

    /// A bucket that was restored.
    pub(crate) fn register(&self, bucket: &Arc<Shared>) {
        self.registry.lock().insert(bucket.key().clone(), bucket);
    }

    /// Every bucket that was kept is back.
    pub(crate) fn has_restored(&self) {
        if self.recovery.count.load(Ordering::Acquire) == 0 && self.recovery.of_new_until.is_none() {
            self.recovery_completed();
        }
    }

    /// The recovery of that bucket is over.
    pub(crate) fn has_recovered(&self, bucket: &Arc<Shared>) {
        self.keep(bucket);
        if self.recovery.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.recovery_completed();
        }
    }

    fn recovery_completed(&self) {
        if let Some(pipeline) = &self.pipeline {
            pipeline.recovery_completed();
        }
    }

    /// Keeps the bucket as long as it must not be forgotten.
    pub(crate) fn keep(&self, bucket: &Arc<Shared>) {
        let Some(keeper) = self.keeper.upgrade() else { return };
        let mut kept = keeper.0.lock();
        let displaced = match bucket.is_needed() {
            true if kept.contains_key(bucket.key()) => None,
            true => kept.insert(bucket.key().clone(), bucket.clone()),
            false => kept.remove(bucket.key()),
        };
        drop(kept);
        drop(displaced);
    }

    /// That bucket has so many commands more to send to the store; the first since it was last asked, if `is_first`.
    #[cold]
    pub(crate) fn enqueue(&self, bucket: &Arc<Shared>, is_first: bool, more: usize) {
        let Some(pipeline) = &self.pipeline else { return };
        if is_first {
            pipeline.enqueue(bucket.clone());
        }
        pipeline.has_more(more);
    }

    /// From now on new buckets grant nothing.
    pub(crate) fn begin_to_close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    /// The last user of a bucket has gone. `forgotten`: as what the store knows it, if it has nothing more to keep of it.
    pub(crate) fn forget(&self, key: &BucketKey, token_mark: u64, forgotten: Option<Arc<Scope>>) {
        let mut registry = self.registry.lock();
        registry.marks.raise(&key.partition, token_mark);
        if let (Some(pipeline), Some(scope)) = (&self.pipeline, forgotten) {
            pipeline.bucket_dropped(scope);
        }
        registry.remove(key);
    }

    /// Keeps the present runtime for the ticker: it may have to start where there is none, as in the drop of a guard.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn remember_runtime(&self) {
        let present = Handle::current();
        let displaced = self.ticking.lock().runtime.replace(present);
        drop(displaced);
    }

    /// A bucket has got its first deadline.
    pub(crate) fn watch_deadlines(self: &Arc<Self>, bucket: &Arc<Shared>) {
        let mut ticking = self.ticking.lock();
        let runtime = Handle::try_current().ok().or_else(|| ticking.runtime.clone());
        if runtime.is_none() && !self.clock.is_manual() {
            drop(ticking);
            // Only a runtime's own drop of its tasks comes here; whoever uses the bucket next tries again.
            bucket.ticker_is_gone();
            return;
        }
        ticking.buckets.push(Arc::downgrade(bucket));
        let is_first = !std::mem::replace(&mut ticking.running, true);
        if is_first {
            self.clock.start_ticking();
        }
        drop(ticking);
        if let Some(runtime) = runtime.filter(|_| is_first && !self.clock.is_manual()) {
            // A runtime that is shutting down drops the task within this call, and with it takes the mutexes.
            runtime.spawn(TickerTask { house: Arc::downgrade(self), finished: false }.run());
        }
    }

    /// A tick of a clock that is moved on by hand.
    pub(crate) fn tick_by_hand(&self) {
        if self.ticking.lock().running {
            while self.tick(usize::MAX) == Ticked::InPart {}
        }
    }

    /// One tick, or a part of it: visits a few buckets, and ends at most so many in each.
    fn tick(&self, most: usize) -> Ticked {
        let judged_by = self.clock.now();
        let (buckets, later) = {
            let mut ticking = self.ticking.lock();
            let mut buckets = std::mem::take(&mut ticking.buckets);
            let later = buckets.split_off(buckets.len().min(BUCKETS_AT_ONCE));
            (buckets, later)
        };
        let (mut unfinished, mut done) = (Vec::new(), Vec::new());
        for known in buckets {
            let Some(bucket) = known.upgrade() else { continue };
            match bucket.tick(judged_by, most) {
                (true, true) => done.push(known),
                (true, false) => unfinished.push(known),
                (false, _) => {}
            }
        }
        let mut ticking = self.ticking.lock();
        ticking.done.append(&mut done);
        if !unfinished.is_empty() || !later.is_empty() {
            // Time stands still until all have ended that this tick ends. Whoever was not visited yet comes first.
            let came_meanwhile = std::mem::replace(&mut ticking.buckets, later);
            ticking.buckets.append(&mut unfinished);
            ticking.buckets.extend(came_meanwhile);
            return Ticked::InPart;
        }
        let mut done = std::mem::take(&mut ticking.done);
        ticking.buckets.append(&mut done);
        if ticking.buckets.is_empty() {
            self.stop(&mut ticking);
            return Ticked::NothingLeft;
        }
        self.clock.tick();
        Ticked::Wholly
    }

    fn stop(&self, ticking: &mut Ticking) {
        self.clock.stop_ticking();
        ticking.running = false;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(pipeline) = &self.pipeline {
            pipeline.stop(Stop::Abandoned);
        }
    }
}

/// How many leases, holds and claims of a bucket end, and names that they leave are processed, before others may do something in it.
const ENDS_AT_ONCE: usize = 256;

/// How many buckets are visited before other tasks come to run.
const BUCKETS_AT_ONCE: usize = 16;

/// How a tick went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticked {
    Wholly,
    /// More has to end by it.
    InPart,
    /// No deadline is left, and ticking has ended.
    NothingLeft,
}

/// The task that ticks. Ends with the house, with its runtime, or once there is nothing to watch.
struct TickerTask {
    house: Weak<Inner>,
    finished: bool,
}

impl TickerTask {
    async fn run(mut self) {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        interval.tick().await;
        while !self.finished {
            interval.tick().await;
            let tick = || self.house.upgrade().map_or(Ticked::NothingLeft, |house| house.tick(ENDS_AT_ONCE));
            let mut ticked = tick();
            while ticked == Ticked::InPart {
                tokio::task::yield_now().await;
                ticked = tick();
            }
            self.finished = ticked == Ticked::NothingLeft;
        }
    }
}

impl Drop for TickerTask {
    /// A runtime that goes takes its tasks with it: the buckets then have to start another ticker.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let Some(house) = self.house.upgrade() else { return };
        let mut ticking = house.ticking.lock();
        house.stop(&mut ticking);
        let mut orphans = std::mem::take(&mut ticking.buckets);
        orphans.append(&mut ticking.done);
        drop(ticking);
        orphans.iter().filter_map(Weak::upgrade).for_each(|bucket| bucket.ticker_is_gone());
    }
}

#[cfg(test)]
mod tests;
