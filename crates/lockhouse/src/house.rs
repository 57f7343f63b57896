//! The house: all buckets of one process.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use lockhouse_core::{Instant, Limits};
use parking_lot::Mutex;
use tokio::runtime::Handle;

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

    fn with_clock(limits: Limits, clock: Clock) -> Self {
        let (registry, ticking) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { limits, clock, registry, ticking }))
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
        let Some(runtime) = Handle::try_current().ok().or_else(|| ticking.runtime.clone()) else {
            drop(ticking);
            // Only a runtime's own drop of its tasks comes here; whoever uses the bucket next tries again.
            bucket.ticker_is_gone();
            return;
        };
        ticking.buckets.push(Arc::downgrade(bucket));
        let is_first = !std::mem::replace(&mut ticking.running, true);
        if is_first {
            self.clock.start_ticking();
        }
        drop(ticking);
        if is_first {
            // A runtime that is shutting down drops the task within this call, and with it takes the mutexes.
            runtime.spawn(TickerTask { house: Arc::downgrade(self), finished: false }.run());
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use lockhouse_core::{AgentId, Command, NewAgent, Outcome};

    use super::*;
    use crate::{Notice, Port};

    /// A house whose time is moved by hand; its ticker never comes to run, as these tests never wait.
    struct World {
        house: House,
        port: Port,
    }

    impl World {
        fn new() -> Self {
            let house = House::with_clock(Limits::DEFAULT, Clock::manual());
            let port = house.bucket("default").port(1000);
            Self { house, port }
        }

        fn join(&self, lease_ms: u64) -> AgentId {
            self.port.submit(0, Command::Join(NewAgent { client_id: "", lease_ms: Some(lease_ms) }));
            match self.told().pop() {
                Some(Notice::Answer { outcome: Outcome::Joined(agent), .. }) => agent,
                other => panic!("{other:?}"),
            }
        }

        fn tick_after(&self, ms: u64) {
            self.house.0.clock.advance(ms);
            self.house.0.tick();
        }

        fn told(&self) -> Vec<Notice> {
            let mut notices = VecDeque::new();
            self.port.drain(&mut notices).unwrap();
            notices.into()
        }

        /// The ticks of 100 ms until an agent ends.
        fn ticks_until_an_end(&self) -> u32 {
            (1..1000)
                .find(|_| {
                    self.tick_after(100);
                    self.told().iter().any(|notice| matches!(notice, Notice::Effect(_)))
                })
                .expect("no agent has ended in 100 s")
        }
    }

    #[tokio::test]
    async fn a_lease_ends_with_the_first_tick_after_the_one_that_reaches_it() {
        let world = World::new();
        world.join(1000);
        assert_eq!(world.ticks_until_an_end(), 11);
    }

    #[tokio::test]
    async fn a_renewal_that_waited_through_a_stall_is_in_time() {
        let world = World::new();
        let agent = world.join(1000);
        world.tick_after(100);
        // The process stands still for a minute; the ticker comes to run before the pending renewal does.
        world.tick_after(60_000);
        world.tick_after(100);
        world.port.submit(1, Command::Renew { agent });
        assert_eq!(world.told(), [Notice::Answer { tag: 1, outcome: Outcome::Renewed { alive: true } }]);
        assert_eq!(world.ticks_until_an_end(), 11);
    }

    #[tokio::test]
    async fn a_lease_as_short_as_the_longest_step_survives_a_stall() {
        let world = World::new();
        let agent = world.join(500);
        world.tick_after(60_000);
        world.port.submit(1, Command::Renew { agent });
        assert_eq!(world.told(), [Notice::Answer { tag: 1, outcome: Outcome::Renewed { alive: true } }]);
    }

    #[tokio::test]
    async fn time_runs_on_without_deadlines_and_never_backwards() {
        let world = World::new();
        world.house.0.clock.advance(5000);
        assert_eq!(world.house.now().as_millis(), 5000);
        world.join(1000);
        world.tick_after(60_000);
        let ticks = world.ticks_until_an_end();
        assert!(ticks <= 10, "{ticks}");
        let before = world.house.now();
        world.house.0.clock.advance(50);
        assert_eq!(world.house.now(), before.plus_millis(50), "it runs freely again, from where it was");
    }
}
