//! The house: all buckets of one process.

pub(crate) mod inner;
mod metering;
pub(crate) mod open;
pub(crate) mod options;
mod past_events;
pub(crate) mod registry;
mod restore;
mod ticker;

use std::sync::Arc;
use std::time::SystemTime;

use lockhouse_core::{Instant, Limits};

use crate::engine::bucket::Bucket;
use crate::engine::clock::Clock;
use crate::engine::commit::pipeline::Pipeline;
use crate::engine::environment::{Bounds, Environment};
use crate::engine::house::inner::{Inner, Recovery, Retained};
use crate::engine::house::options::Options;
use crate::engine::house::registry::Marks;
use crate::engine::key::BucketKey;
use crate::engine::memory::MemoryBudget;
use crate::engine::meters::Meters;

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
    /// Buckets without users that must not be forgotten.
    #[expect(dead_code, reason = "kept for its end")]
    retained: Arc<Retained>,
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
        Self::with_clock(Bounds { limits, ..Bounds::default() }, Clock::new())
    }

    /// An empty house in memory, with bounds or a clock of one's own.
    pub fn with_options(options: &Options) -> Self {
        let house = Self::with_clock(options.bounds(), options.new_clock());
        house.inner.live_by(options);
        house
    }

    fn with_clock(bounds: Bounds, clock: Clock) -> Self {
        let marks = Marks::at(clock.wall(clock.now()));
        let environment = Environment::in_memory(bounds, clock);
        Self::with(environment, None, Recovery::default(), marks)
    }

    pub(crate) fn with(
        environment: Environment,
        pipeline: Option<Arc<Pipeline>>,
        recovery: Recovery,
        marks: Marks,
    ) -> Self {
        let retained = Arc::new(Retained::default());
        let inner = Inner::new(environment, pipeline, recovery, marks, Arc::downgrade(&retained));
        Self { inner: Arc::new(inner), retained }
    }

    /// The bucket with that key, which begins with its first use and is forgotten after its last.
    pub fn bucket(&self, key: impl Into<BucketKey>) -> Bucket {
        self.bucket_within_limit(key, usize::MAX).expect("there is always room for one more")
    }

    /// The bucket with that key; none if it is not in use, and `most` others of the same
    /// [tenant](BucketKey::tenant) are in use already.
    ///
    /// ```
    /// let house = lockhouse::House::new();
    /// let one = house.bucket_within_limit("one", 1).unwrap();
    /// assert!(house.bucket_within_limit("two", 1).is_none());
    /// assert!(house.bucket_within_limit("one", 1).is_some());
    /// ```
    pub fn bucket_within_limit(&self, key: impl Into<BucketKey>, most: usize) -> Option<Bucket> {
        self.inner.bucket(key.into(), most).map(Bucket)
    }

    /// The memory that the buckets of each tenant take, where that has a [bound](Options::memory_budget).
    pub fn memory_budget(&self) -> Option<&MemoryBudget> {
        self.inner.environment.bounds.memory.as_ref()
    }

    /// Where what happens in the house is counted, if [anywhere](Options::meters).
    pub fn meters(&self) -> Option<&Meters> {
        self.inner.environment.bounds.meters.as_ref()
    }

    /// How many buckets of that [tenant](BucketKey::tenant) are in use.
    pub fn count_buckets_of(&self, tenant: &str) -> usize {
        self.inner.count_of(tenant)
    }

    /// Whether the bucket is one of this house.
    pub fn has(&self, bucket: &Bucket) -> bool {
        Arc::ptr_eq(&self.inner.environment, &bucket.0.environment)
    }

    /// Every bucket that is in use.
    pub fn buckets(&self) -> Vec<Bucket> {
        self.inner.buckets().into_iter().map(Bucket).collect()
    }

    /// All buckets of that partition that are in use or have something durable. O(all buckets).
    pub fn buckets_in(&self, partition: &str) -> Vec<Bucket> {
        self.inner.buckets_in(partition).into_iter().map(Bucket).collect()
    }

    /// Now, by the clock that leases run by.
    pub fn now(&self) -> Instant {
        self.inner.environment.clock.now()
    }

    /// When that was, or will be, by the calendar.
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.inner.environment.clock.wall(at)
    }
}

#[cfg(test)]
mod tests;
