//! The house: all buckets of one process.

pub(crate) mod open;
pub(crate) mod registry;
mod ticker;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::SystemTime;

use foldhash::fast::RandomState;
use lockhouse_core::{Command, Instant, Limits, LockManager};
use lockhouse_store::{Scope, SecretKey};
use parking_lot::Mutex;

use self::ticker::Ticking;
use crate::engine::bucket::{Bucket, Shared};
use crate::engine::clock::Clock;
use crate::engine::commit::pipeline::{Pipeline, Stop};
use crate::engine::house::open::Options;
use crate::engine::house::registry::{Marks, Registry};
use crate::engine::key::BucketKey;
use crate::engine::memory::{Room, Rooms};
use crate::engine::ticket::Tickets;
use crate::keyed_hash::KeyedHash;

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
struct Keeper(Mutex<HashMap<BucketKey, Arc<Shared>, RandomState>>);

#[derive(Debug)]
pub(crate) struct Inner {
    bounds: Bounds,
    pub(crate) clock: Clock,
    registry: Mutex<Registry>,
    ticking: Mutex<Ticking>,
    /// The way to the store, if there is one.
    pipeline: Option<Arc<Pipeline>>,
    key: OnceLock<KeyedHash>,
    /// None if web locks cannot be brought back after a restart.
    tickets: Option<Tickets>,
    keeper: Weak<Keeper>,
    recovery: Recovery,
    is_closing: AtomicBool,
}

/// How much there may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// In each bucket.
    pub(crate) limits: Limits,
    /// In memory, in all buckets of each tenant; none: as much as comes.
    pub(crate) rooms: Option<Rooms>,
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
        Self::with_clock(Bounds { limits, rooms: None }, Clock::new())
    }

    /// An empty house in memory, with bounds or a clock of one's own.
    pub fn with_options(options: &Options) -> Self {
        let house = Self::with_clock(options.bounds(), options.new_clock());
        options.drive(&house);
        house
    }

    fn with_clock(bounds: Bounds, clock: Clock) -> Self {
        Self::over(bounds, clock, None, None, Recovery::default(), Marks::default())
    }

    pub(crate) fn over(
        bounds: Bounds,
        clock: Clock,
        store: Option<(Arc<Pipeline>, SecretKey)>,
        tickets: Option<Tickets>,
        recovery: Recovery,
        marks: Marks,
    ) -> Self {
        let keeper = Arc::new(Keeper::default());
        let (pipeline, key) = store.unzip();
        let inner = Inner {
            bounds,
            clock,
            registry: Mutex::new(Registry::with(marks)),
            ticking: Mutex::default(),
            pipeline,
            key: key.map_or_else(OnceLock::new, |key| KeyedHash::new(key.as_bytes()).into()),
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

    /// The bucket with that key; none if nobody uses it, and `most` others of the same [tenant](BucketKey::tenant) are in use already.
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
                if registry.count(key.tenant()) >= most {
                    return None;
                }
                let bucket = self.inner.new_bucket(key.clone(), registry.marks.above(&key));
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

    /// What the buckets of each tenant take, where that has a [bound](Options::rooms).
    pub fn rooms(&self) -> Option<&Rooms> {
        self.inner.bounds.rooms.as_ref()
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

impl Inner {
    pub(crate) fn pipeline(&self) -> Option<&Arc<Pipeline>> {
        self.pipeline.as_ref()
    }

    pub(crate) fn tickets(&self) -> Option<&Tickets> {
        self.tickets.as_ref()
    }

    /// The key that secrets are derived from.
    pub(crate) fn key(&self) -> Result<&KeyedHash, getrandom::Error> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = KeyedHash::new(SecretKey::random()?.as_bytes());
        Ok(self.key.get_or_init(|| key))
    }

    pub(crate) fn buckets(&self) -> Vec<Arc<Shared>> {
        self.registry.lock().buckets.values().filter_map(Weak::upgrade).collect()
    }

    /// What that tenant has in one more bucket, where that has a bound.
    pub(crate) fn room_of(&self, tenant: &str) -> Option<Room> {
        self.bounds.rooms.as_ref().map(|rooms| rooms.of(tenant))
    }

    /// Called with the mutex of the registry, so that a house that begins to close either finds the bucket there, or is found closing.
    fn new_bucket(self: &Arc<Self>, key: BucketKey, token_mark: u64) -> Arc<Shared> {
        let mut manager = LockManager::with_limits(RandomState::default(), self.bounds.limits);
        manager.continue_tokens_above(token_mark);
        if let Some(until) = self.recovery.of_new_until.filter(|until| *until > self.clock.now()) {
            manager.begin_recovery(until);
            self.recovery.count.fetch_add(1, Ordering::AcqRel);
        }
        if self.is_closing.load(Ordering::Acquire) {
            // Before anybody can find it: it is not among those that are closed, and what is granted in it would be held after a clean stop.
            manager.handle(self.clock.now(), Command::Close);
        }
        Arc::new(Shared::new(key, self.clone(), manager))
    }

    /// What a new bucket has to hear, without any mutex.
    fn begin(&self, bucket: &Arc<Shared>) {
        // Whoever waits in a bucket that came too late to be told of the loss would wait for ever.
        if self.is_closing.load(Ordering::Acquire)
            && let Some(why) = self.why_over()
        {
            bucket.is_over(Some(why));
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
        let displaced = match bucket.note_need() {
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
        registry.marks.raise(key, token_mark);
        if let (Some(pipeline), Some(scope)) = (&self.pipeline, forgotten) {
            pipeline.bucket_dropped(scope);
        }
        registry.remove(key);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(pipeline) = &self.pipeline {
            pipeline.stop(Stop::Abandoned);
        }
    }
}

#[cfg(test)]
mod tests;
