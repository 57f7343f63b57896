//! How a house is to be opened.

use std::time::Duration;

use lockhouse_core::{FencingToken, Limits};

use crate::engine::clock::{Clock, ManualClock};
use crate::engine::environment::Bounds;
use crate::engine::events::EventBounds;
use crate::engine::memory::MemoryBudget;
use crate::engine::meters::Meters;
use crate::whole_millis::whole_millis;

/// How a house is to be opened.
///
/// ```
/// # use std::time::Duration;
/// let options = lockhouse::Options::new().lease(Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) bounds: Bounds,
    clock: Option<ManualClock>,
    pub(super) lease_ms: u64,
    pub(super) always_recovers: bool,
    pub(super) reclaims_nothing: bool,
    pub(super) store_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bounds: Bounds::default(),
            clock: None,
            lease_ms: 0,
            always_recovers: false,
            reclaims_nothing: false,
            store_timeout: Self::STORE_TIMEOUT,
        }
    }
}

impl Options {
    /// How long an answer of the store is waited for, unless [`store_timeout`](Self::store_timeout) says
    /// otherwise.
    pub const STORE_TIMEOUT: Duration = Duration::from_secs(5);

    /// The default bounds and the system's clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds of one's own, which hold for each bucket.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.bounds.limits = limits;
        self
    }

    /// How many bytes the buckets of each [tenant](crate::BucketKey::tenant) may take in memory, together: a
    /// request that would take more is refused as a [`Quota`](crate::Quota). Without it they may take as much
    /// as the limits of each let them. Records that a store brings back count, and are there whether or not
    /// the memory suffices.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lockhouse::{House, Options, RequestError, MemoryBudget};
    ///
    /// let house = House::with_options(&Options::new().memory_budget(&MemoryBudget::new(16 << 10)));
    /// let agent = house.bucket("default").agent("worker-1")?;
    /// let lock = agent.locks().request("a name").await?;
    /// let long = "n".repeat(4096);
    /// let (mut locks, mut refused) = (Vec::new(), None);
    /// while refused.is_none() {
    ///     match agent.locks().request(&*format!("{long}{}", locks.len())).await {
    ///         Ok(lock) => locks.push(lock),
    ///         Err(error) => refused = Some(error),
    ///     }
    /// }
    /// assert!(matches!(refused, Some(RequestError::Quota(_))));
    /// # Ok(()) }
    /// ```
    pub fn memory_budget(mut self, budget: &MemoryBudget) -> Self {
        self.bounds.memory = Some(budget.clone());
        self
    }

    /// Counts what happens in the house there. Without meters nothing is counted.
    pub fn meters(mut self, meters: &Meters) -> Self {
        self.bounds.meters = Some(meters.clone());
        self
    }

    /// How much of what happens each bucket keeps from its start on: for [readers](crate::Bucket::events),
    /// and as the history of its web locks. Without it a bucket keeps events from its first reader on, and no
    /// history of web locks. What is kept counts in the [memory budget](Self::memory_budget), and gives way
    /// once the tenant has half of that, but for a [little](EventBounds::FLOOR_BYTES).
    pub fn events(mut self, bounds: EventBounds) -> Self {
        self.bounds.events = Some(bounds);
        self
    }

    /// Whether a step that ends 10,000 requests and locks or more, or grants so many, [blocks in
    /// place](tokio::task::block_in_place): the end of an agent with so many, a steal from so many, and, by a
    /// [`Port`](crate::Port), the end of what so many readers wait for. Other tasks of its worker thread then
    /// go on in another one. For programs that use the house on a multi-threaded runtime, and in no
    /// [`LocalSet`](tokio::task::LocalSet), where such a step panics, also in the drop of an agent or a port.
    /// Whether a step is large is looked at just before it.
    pub fn block_in_place(mut self, blocks: bool) -> Self {
        self.bounds.block_in_place = blocks;
        self
    }

    /// A clock that is moved on by hand.
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// The longest lease that ports will ask for, so that the store knows of it from the start and no client
    /// has to wait for that; and how long a recovery lasts at least. Rounded up to milliseconds, of which
    /// there are fewer than 2^53.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease_ms = whole_millis(lease).min(FencingToken::LIMIT - 1);
        self
    }

    /// Whether every bucket recovers first, as with a store that keeps nothing over a restart; without it
    /// only those do of which the store knows that they have to.
    pub fn always_recover(mut self, always: bool) -> Self {
        self.always_recovers = always;
        self
    }

    /// Whether remote holders of web locks are given tickets, with which they can bring their locks back
    /// after a restart: yes, unless the store keeps nothing over it.
    pub fn tickets(mut self, tickets: bool) -> Self {
        self.reclaims_nothing = !tickets;
        self
    }

    /// How long an answer of the store is waited for. A store that takes longer is
    /// [unavailable](crate::StoreState::Unavailable) until the answer comes: new changes are refused. Calls
    /// under way that wait as long again learn that the outcome is unknown, whatever keeps the store from
    /// writing. At least 1 ms, whatever is given.
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.store_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds.clone()
    }

    pub(crate) fn new_clock(&self) -> Clock {
        self.clock.clone().map_or_else(Clock::new, Clock::manual)
    }

    /// The clock that is moved on by hand, if there is one.
    pub(crate) fn manual_clock(&self) -> Option<&ManualClock> {
        self.clock.as_ref()
    }
}
