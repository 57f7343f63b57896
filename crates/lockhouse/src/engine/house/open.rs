//! How a house begins over a store, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use lockhouse_core::{Change, Command, FencingToken, Instant, Limits, LockManager, RestoreError};
use lockhouse_store::{Kept, Opened, Scope, Slot, Store, TakeError, WriterId};

use crate::engine::bucket::Shared;
use crate::engine::bucket::parcel::by_the_lease_clock;
use crate::engine::clock::{Clock, ManualClock};
use crate::engine::commit::pipeline::{Pipeline, Stop, StoreState};
use crate::engine::house::registry::Marks;
use crate::engine::house::{Bounds, House, Inner, Recovery};
use crate::engine::key::BucketKey;
use crate::engine::memory::Rooms;
use crate::engine::ticket::Tickets;
use crate::engine::waiters::Loss;

/// How a house is to be opened.
///
/// ```
/// # use std::time::Duration;
/// let options = lockhouse::Options::new().lease(Duration::from_secs(10));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    bounds: Bounds,
    clock: Option<ManualClock>,
    lease_ms: u64,
    always_recovers: bool,
    reclaims_nothing: bool,
}

/// Why a house could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store could not be taken.
    #[error(transparent)]
    Store(#[from] TakeError),
    /// What is kept contradicts itself.
    #[error("what is kept of bucket {bucket:?} is damaged ({why}); restore the store from a backup")]
    Damaged {
        /// The bucket.
        bucket: String,
        /// How.
        why: RestoreError,
    },
    /// No bucket could begin, as the fencing tokens are used up.
    #[error(
        "what is kept says that fencing tokens are used up to {0}, which leaves none; restore the store from a backup"
    )]
    NoTokenLeft(u64),
    /// The store was lost again at once.
    #[error("the store was lost while it was opened: {0:?}")]
    Lost(StoreState),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    NoRandomness(String),
}

impl Options {
    /// The default bounds and the system's clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds of one's own, which hold for each bucket.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.bounds.limits = limits;
        self
    }

    /// How many bytes the buckets of each [tenant](BucketKey::tenant) may take in memory, together: whatever would take more is refused as a [`Quota`](crate::Quota).
    /// Without it they may take as much as the limits of each let them. What a store brings back counts, and is there whether or not there is
    /// room.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lockhouse::{House, Options, RequestError, Rooms};
    ///
    /// let house = House::with_options(&Options::new().rooms(&Rooms::new(16 << 10)));
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
    pub fn rooms(mut self, rooms: &Rooms) -> Self {
        self.bounds.rooms = Some(rooms.clone());
        self
    }

    /// A clock that is moved on by hand.
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// The longest lease that ports will ask for, so that the store knows of it from the start and nobody has to wait for that; and how long a recovery
    /// lasts at least.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease_ms = lease.as_millis() as u64;
        self
    }

    /// Whether every bucket recovers first, as with a store that keeps nothing over a restart; without it only those do of which the
    /// store knows that they have to.
    pub fn always_recover(mut self, always: bool) -> Self {
        self.always_recovers = always;
        self
    }

    /// Whether holders of web locks far away are given tickets, with which they can bring their locks back after a restart: yes, unless
    /// the store keeps nothing over it.
    pub fn tickets(mut self, tickets: bool) -> Self {
        self.reclaims_nothing = !tickets;
        self
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds.clone()
    }

    pub(crate) fn new_clock(&self) -> Clock {
        self.clock.clone().map_or_else(Clock::new, Clock::manual)
    }

    /// Has the house move on with the clock.
    pub(crate) fn drive(&self, house: &House) {
        if let Some(clock) = &self.clock {
            clock.drives(&house.inner);
        }
    }
}

impl House {
    /// Opens a house whose offline locks, owners, claims and assignments are kept in a store, beginning with what is kept there.
    ///
    /// Nobody is told what the store has not kept: answers come once it has. Buckets that have to recover from a crash grant nothing until whoever
    /// held web locks in them far away has come back, or has had the time to.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{sync::Arc, time::Duration};
    /// use lockhouse::{House, Options, store::MemoryStore};
    ///
    /// let store = MemoryStore::new()?;
    /// let house = House::open(Arc::new(store.reopen()), Options::new()).await?;
    /// let claim = house.bucket("seats").claims().claim("row 7, seat 12", "ada", Duration::from_secs(600)).await?;
    /// claim.finalize().await?;
    /// house.close().await;
    ///
    /// let house = House::open(Arc::new(store.reopen()), Options::new()).await?;
    /// let assignment = house.bucket("seats").claims().assignment("row 7, seat 12").await?.unwrap();
    /// assert_eq!(assignment.claimant, "ada");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled, which then has to live as long as the house.
    pub async fn open(store: Arc<dyn Store>, options: Options) -> Result<Self, OpenError> {
        let writer = getrandom::u64().map_err(|error| OpenError::NoRandomness(error.to_string()))?;
        let writer = WriterId(writer);
        let clock = options.new_clock();
        let mut restoring =
            Restoring { clock: &clock, limits: options.bounds.limits, ..Restoring::new(&clock) };
        let opened = store.take_slot(Slot::ONLY, writer, &mut |kept| restoring.take(kept)).await?;
        let Restoring { mut buckets, dropped, damage, now, .. } = restoring;
        if let Some(damage) = damage {
            return Err(damage);
        }
        let recovery = Recovery::new(&opened, &mut buckets, now, &options);
        let highest = dropped.iter().map(|(_, mark)| *mark).fold(opened.token_floor, u64::max);
        if highest >= FencingToken::LIMIT - 1 {
            return Err(OpenError::NoTokenLeft(highest));
        }
        let mut marks = Marks::above_floor(opened.token_floor);
        dropped.iter().for_each(|(key, mark)| marks.raise(key, *mark));
        let pipeline = Arc::new(Pipeline::new(store, Slot::ONLY, opened.epoch, writer));
        let tickets = Tickets::new(opened.key.as_bytes(), opened.epoch, opened.tickets_since);
        let tickets = (!options.reclaims_nothing).then_some(tickets);
        let store = (pipeline.clone(), opened.key);
        let house = Self::over(options.bounds(), clock, Some(store), tickets, recovery, marks);
        options.drive(&house);
        buckets.into_iter().for_each(|bucket| house.add(bucket));
        house.inner.has_restored();
        pipeline.give_leases(options.lease_ms).await?;
        let inner = Arc::downgrade(&house.inner);
        tokio::spawn(pipeline.run(move || {
            if let Some(house) = inner.upgrade() {
                house.is_over();
            }
        }));
        Ok(house)
    }

    /// Ends the house: from now on nothing is granted, what has to be kept is kept, and the store is closed.
    ///
    /// The stop is clean, so that the next start need not recover, if nobody far away holds a web lock any more: let them go first, or
    /// close them.
    ///
    /// # Cancel safety
    ///
    /// The house ends all the same.
    pub async fn close(&self) -> StoreState {
        self.inner.begin_to_close();
        let buckets = self.buckets();
        buckets.iter().for_each(|bucket| _ = bucket.0.handle(Command::Close));
        let clean = !buckets.iter().any(|bucket| bucket.0.is_held_far_away());
        drop(buckets);
        let Some(pipeline) = self.inner.pipeline() else { return StoreState::Closed { clean } };
        let mut state = pipeline.state();
        pipeline.stop(Stop::Closed { clean });
        let over = state.wait_for(StoreState::is_over).await.map(|state| state.clone());
        over.unwrap_or(StoreState::Closed { clean: false })
    }

    /// How the house stands with its store. Without a store it always serves.
    pub fn store_state(&self) -> StoreState {
        self.inner.pipeline().map_or(StoreState::Serving, |pipeline| pipeline.state().borrow().clone())
    }

    /// Waits until the house will never keep anything again: it was closed, or has lost its store, and then its owner should end the
    /// process. Never returns without a store.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&self) -> StoreState {
        let Some(pipeline) = self.inner.pipeline() else { return std::future::pending().await };
        let mut state = pipeline.state();
        let over = state.wait_for(StoreState::is_over).await.map(|state| state.clone());
        over.unwrap_or(StoreState::Closed { clean: false })
    }

    /// Waits until the house keeps what has to be kept, or never will again; the state says which.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn serving(&self) -> StoreState {
        let Some(pipeline) = self.inner.pipeline() else { return StoreState::Serving };
        let mut state = pipeline.state();
        let is_settled = |state: &StoreState| *state == StoreState::Serving || state.is_over();
        let settled = state.wait_for(is_settled).await.map(|state| state.clone());
        settled.unwrap_or(StoreState::Closed { clean: false })
    }

    /// Waits until the house can keep nothing, for the moment or for good; the state says why. Never returns without a store.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn unavailable(&self) -> StoreState {
        match self.inner.pipeline() {
            Some(pipeline) => pipeline.not_serving().await,
            None => std::future::pending().await,
        }
    }

    /// The store, for what only it can do, such as a backup.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.inner.pipeline().map(|pipeline| pipeline.store())
    }

    fn add(&self, bucket: Restored) {
        let key = BucketKey::from(&*bucket.scope);
        let shared = Shared::restored(key, self.inner.clone(), bucket.manager, bucket.facts, true);
        let shared = Arc::new(shared);
        self.inner.register(&shared);
        self.inner.keep(&shared);
        // Tells the ticker of its deadlines, if it has any.
        shared.with(|_| ());
    }
}

impl Recovery {
    /// Begins it where it has to be.
    fn new(opened: &Opened, buckets: &mut [Restored], now: Instant, options: &Options) -> Self {
        let length_ms = opened.longest_lease_ms.max(options.lease_ms);
        let until = now.plus_millis(length_ms);
        let mut count = 0;
        for bucket in buckets {
            let must = options.always_recovers || opened.recovers(bucket.told_volatile);
            if must && length_ms > 0 {
                bucket.manager.begin_recovery(until);
                count += 1;
            }
        }
        let of_new = (options.always_recovers || opened.restored) && length_ms > 0;
        Self::of(count, of_new.then_some(until))
    }
}

/// A bucket on its way back.
struct Restored {
    scope: Arc<Scope>,
    told_volatile: bool,
    manager: LockManager<RandomState>,
    facts: usize,
}

/// All buckets on their way back.
struct Restoring<'a> {
    clock: &'a Clock,
    now: Instant,
    limits: Limits,
    buckets: Vec<Restored>,
    /// The marks of the partitions of which buckets were dropped.
    dropped: Vec<(BucketKey, u64)>,
    damage: Option<OpenError>,
}

impl<'a> Restoring<'a> {
    fn new(clock: &'a Clock) -> Self {
        let (limits, buckets) = (Limits::DEFAULT, Vec::new());
        Self { clock, now: clock.now(), limits, buckets, dropped: Vec::new(), damage: None }
    }

    fn take(&mut self, kept: Kept) {
        match kept {
            Kept::Tenant { tenant, mark } => {
                let key = BucketKey { bucket: String::new(), partition: tenant.into() };
                self.dropped.push((key, mark));
            }
            Kept::Bucket { scope, told_volatile } => {
                let manager = LockManager::with_limits(RandomState::default(), self.limits);
                self.buckets.push(Restored { scope, told_volatile, manager, facts: 0 });
            }
            Kept::Change { change, .. } => self.change(change),
        }
    }

    fn change(&mut self, change: Change) {
        let Some(bucket) = self.buckets.last_mut() else { return };
        let is_fact = matches!(change, Change::OwnerOpened(_) | Change::Claimed(_) | Change::Assigned(_));
        bucket.facts += usize::from(is_fact);
        let change = by_the_lease_clock(change, self.clock);
        if let Err(why) = bucket.manager.restore(self.now, &change) {
            let bucket = bucket.scope.bucket.to_string();
            self.damage.get_or_insert(OpenError::Damaged { bucket, why });
        }
    }
}

impl Inner {
    /// Tells everybody that the pipeline has ended.
    fn is_over(&self) {
        let why = self.why_over();
        self.begin_to_close();
        self.buckets().iter().for_each(|bucket| bucket.is_over(why));
    }

    /// Why every lock is lost, if the store is.
    pub(crate) fn why_over(&self) -> Option<Loss> {
        match &*self.pipeline()?.state().borrow() {
            StoreState::Fenced => Some(Loss::Fenced),
            StoreState::Failed(_) => Some(Loss::StoreFailed),
            _ => None,
        }
    }
}
