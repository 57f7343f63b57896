//! The house: all buckets of one process.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use lockhouse_core::{Instant, Limits};
use parking_lot::Mutex;

use crate::bucket::{Bucket, Shared};
use crate::clock::{Clock, TICK};

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

/// All buckets of one process, in memory. Cheap to clone; every clone is the same house.
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
pub struct House(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    limits: Limits,
    pub(crate) clock: Clock,
    registry: Mutex<Registry>,
    ticking: Mutex<Ticking>,
}

#[derive(Debug, Default)]
struct Registry {
    buckets: HashMap<BucketKey, Weak<Shared>>,
    /// The highest token of any bucket that was dropped: whoever comes anew starts above it.
    token_mark: u64,
}

/// The buckets that have deadlines, and whether the task that watches them runs.
#[derive(Debug, Default)]
struct Ticking {
    buckets: Vec<Weak<Shared>>,
    running: bool,
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
        let (registry, ticking) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { limits, clock: Clock::new(), registry, ticking }))
    }

    /// The bucket with that key, which begins with its first use and is forgotten after its last.
    pub fn bucket(&self, key: impl Into<BucketKey>) -> Bucket {
        let key = key.into();
        loop {
            let mut registry = self.0.registry.lock();
            let Some(known) = registry.buckets.get(&key) else {
                let bucket = Shared::new(key.clone(), self.0.clone(), self.0.limits, registry.token_mark);
                let bucket = Arc::new(bucket);
                registry.buckets.insert(key, Arc::downgrade(&bucket));
                return Bucket(bucket);
            };
            if let Some(bucket) = known.upgrade() {
                return Bucket(bucket);
            }
            // Its last user is just leaving, on another thread, and will hand in the token mark.
            drop(registry);
            std::thread::yield_now();
        }
    }

    /// Every bucket that is in use.
    pub fn buckets(&self) -> Vec<Bucket> {
        self.0.registry.lock().buckets.values().filter_map(Weak::upgrade).map(Bucket).collect()
    }

    /// Now, by the clock that leases run by.
    pub fn now(&self) -> Instant {
        self.0.clock.now()
    }

    /// When that was, or will be, by the calendar.
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.0.clock.wall(at)
    }
}

impl Inner {
    /// The last user of a bucket has gone.
    pub(crate) fn forget(&self, key: &BucketKey, last_token: u64) {
        let mut registry = self.registry.lock();
        registry.token_mark = registry.token_mark.max(last_token);
        registry.buckets.remove(key);
    }

    /// A bucket has got its first deadline.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn watch_deadlines(self: &Arc<Self>, bucket: Weak<Shared>) {
        let mut ticking = self.ticking.lock();
        ticking.buckets.push(bucket);
        if !ticking.running {
            ticking.running = true;
            self.clock.start_ticking();
            tokio::spawn(TickerTask { house: Arc::downgrade(self), finished: false }.run());
        }
    }

    /// One tick; false once no deadline is left and ticking has ended.
    fn tick(&self) -> bool {
        let judged_by = self.clock.now();
        let buckets = std::mem::take(&mut self.ticking.lock().buckets);
        let mut remaining: Vec<_> = buckets
            .into_iter()
            .filter(|bucket| Weak::upgrade(bucket).is_some_and(|b| b.tick(judged_by)))
            .collect();
        let mut ticking = self.ticking.lock();
        ticking.buckets.append(&mut remaining);
        if ticking.buckets.is_empty() {
            self.stop(&mut ticking);
            return false;
        }
        self.clock.tick();
        true
    }

    fn stop(&self, ticking: &mut Ticking) {
        self.clock.stop_ticking();
        ticking.running = false;
    }
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
            self.finished = !self.house.upgrade().is_some_and(|house| house.tick());
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
        let orphans = std::mem::take(&mut ticking.buckets);
        drop(ticking);
        orphans.iter().filter_map(Weak::upgrade).for_each(|bucket| bucket.ticker_is_gone());
    }
}
