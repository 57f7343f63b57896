//! How a house begins over a store, and how it ends.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockhouse_core::{Command, FencingToken, Instant, ReplayError};
use lockhouse_store::{
    HeldList, HeldWebLock, HistoryError, HistoryFilter, HistoryPage, HistoryQuery, MarkOf, Opened, Slot,
    Store, StoreUnavailable, TakeError, TokenMark, Write, WriterId,
};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use crate::engine::absence::{AWAY, Absence, NameHasher};
use crate::engine::bucket::shared::Shared;
use crate::engine::clock::Clock;
use crate::engine::commit::pipeline::{LastWrite, Pipeline, Stop};
use crate::engine::commit::slot_lease::SlotLease;
use crate::engine::commit::steady_clock::SteadyClock;
use crate::engine::commit::store_state::{Left, StoreState, StoreStatus};
use crate::engine::environment::Environment;
use crate::engine::house::House;
use crate::engine::house::inner::{Inner, Recovery};
use crate::engine::house::options::Options;
use crate::engine::house::registry::Marks;
use crate::engine::house::restore::{Damage, Restored, Restoring};
use crate::engine::key::BucketKey;
use crate::engine::sync::spawn;
use crate::engine::ticket::Tickets;
use crate::error::StoreError;
use crate::keyed_hash::KeyedHash;
use crate::whole_millis::whole_millis;

/// Why a house could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store could not be taken.
    #[error(transparent)]
    Store(#[from] TakeError),
    /// The stored records contradict themselves.
    #[error("what is kept of bucket {bucket:?} is damaged ({why}); restore the store from a backup")]
    Damaged {
        /// The bucket.
        bucket: String,
        /// How.
        why: ReplayError,
    },
    /// No bucket could begin, as the fencing tokens are used up.
    #[error(
        "what is kept says that fencing tokens are used up to {0}, which leaves none; restore the store from a backup"
    )]
    NoTokenLeft(u64),
    /// The store was lost again at once, or cannot write.
    #[error("the store was taken, and then: {}", StoreError::from(.0))]
    Lost(StoreState),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    NoRandomness(String),
}

impl OpenError {
    /// Whether the store could be taken, and what it keeps cannot be served: to take it again does not help.
    pub(crate) fn is_about_what_is_kept(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::NoTokenLeft(_) | Self::Store(TakeError::Fatal(_)) => true,
            Self::Store(_) | Self::Lost(_) | Self::NoRandomness(_) => false,
        }
    }
}

/// The right of a node of a fleet to serve a slot.
#[derive(Debug)]
pub(crate) struct SlotTenure {
    pub(crate) slot: Slot,
    /// Whether the node may speak.
    pub(crate) lease: Arc<SlotLease>,
    /// What is known of the owner before.
    pub(crate) former: FormerOwner,
    /// A node loads few slots at once.
    pub(crate) turn: OwnedSemaphorePermit,
}

/// The owner of a slot before a node took it, as the node knows of it.
#[derive(Clone, Debug)]
pub(crate) struct FormerOwner {
    /// The epoch of the slot when it was decided to take it.
    pub(crate) epoch: u64,
    /// How long that owner may believe in its right, counted from `since`.
    pub(crate) wait: Duration,
    /// The same, if a failover has freed the slot.
    pub(crate) wait_if_restored: Duration,
    /// When it was decided to take the slot.
    pub(crate) since: Duration,
    /// The clock of that instant.
    pub(crate) clock: Arc<SteadyClock>,
}

impl FormerOwner {
    /// How long the former owner may believe in its right, once the take has led to this epoch. If another
    /// take came between, nothing is known of that owner.
    fn wait(&self, lease: &SlotLease, epoch: u64) -> Duration {
        if epoch == self.epoch + 1 { self.wait } else { self.wait.max(lease.length()) }
    }

    /// Waits until the former owner is mute. To ensure correctness, nothing is granted and no lock reclaimed
    /// before: until then that owner may end the lease of a client that has come here, and may grant what it
    /// held.
    async fn until_mute(&self, wait: Duration, opened: &Opened) {
        // After a failover nodes go on for as long as they may after their last commit on the former server.
        let wait = if opened.restored { wait.max(self.wait_if_restored) } else { wait };
        self.clock.until(self.since + wait).await;
    }
}

impl House {
    /// Opens a house whose offline locks, owners, claims and assignments are durable in a store, beginning
    /// with the records there.
    ///
    /// No change is announced before it is durable: answers come once the store has it. Buckets that have to
    /// recover from a crash grant nothing until the remote holders of their web locks have come back, or have
    /// had the time to.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{sync::Arc, time::Duration};
    /// use lockhouse::{House, Options, store::MemoryStore};
    ///
    /// let store = MemoryStore::new()?;
    /// let house = House::open(Arc::new(store.reopen()), Options::new()).await?;
    /// let claim = house
    ///     .bucket("seats")
    ///     .claims()
    ///     .claim("row 7, seat 12", "ada", Duration::from_secs(600))
    ///     .await?;
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
        Self::open_as(store, options, None).await
    }

    /// Opens a house over a slot of a fleet, as a node has it.
    pub(crate) async fn open_slot(
        store: Arc<dyn Store>,
        options: Options,
        tenure: SlotTenure,
    ) -> Result<Self, OpenError> {
        Self::open_as(store, options, Some(tenure)).await
    }

    async fn open_as(
        store: Arc<dyn Store>,
        options: Options,
        tenure: Option<SlotTenure>,
    ) -> Result<Self, OpenError> {
        let slot = tenure.as_ref().map_or(Slot::ONLY, |tenure| tenure.slot);
        let writer = getrandom::u64().map_err(|error| OpenError::NoRandomness(error.to_string()))?;
        let writer = WriterId(writer);
        let clock = options.new_clock();
        let marks = first_marks(&clock, tenure.is_some());
        let mut restoring = Restoring::new(&clock, options.bounds.limits, marks);
        let mut opened = store.take_slot(slot, writer, &mut |row| restoring.take(row)).await?;
        let Restoring { mut buckets, mut marks, mark_rows, damage, .. } = restoring;
        if let Some(Damage { bucket, why }) = damage {
            return Err(OpenError::Damaged { bucket, why });
        }
        marks.add(TokenMark { of: MarkOf::All, up_to: opened.token_floor });
        if marks.highest() >= FencingToken::LIMIT - 1 {
            return Err(OpenError::NoTokenLeft(marks.highest()));
        }
        for bucket in &mut buckets {
            // A bucket that came anew and was only reclaimed in has reserved nothing itself. Its recovery
            // begins later, as it takes only tokens up to there.
            bucket.manager.continue_tokens_above(marks.above(&BucketKey::from(&*bucket.scope)));
        }
        let (mut lease, mut wait) = (None, Duration::ZERO);
        if let Some(tenure) = tenure {
            drop(tenure.turn);
            let former = tenure.former;
            let taken = former.clock.now();
            wait = former.wait(&tenure.lease, opened.epoch);
            former.until_mute(wait, &opened).await;
            // Until the take the former writer may have gone on, and may so for the wait.
            wait = wait.saturating_sub(former.clock.now().saturating_sub(taken));
            lease = Some(tenure.lease);
        }
        let now = clock.now();
        let recovery = Recovery::new(&mut opened, &mut buckets, now, &options, whole_millis(wait));
        let mut first_writes = Vec::new();
        if options.lease_ms > 0 {
            first_writes.push(Write::LongestLease { ms: options.lease_ms });
        }
        // The clock has raised the floor, below which later marks are not stored; or a store of an earlier
        // version has more marks than are remembered.
        if marks.floor() > opened.token_floor || mark_rows != marks.len() {
            first_writes.push(Write::MarksReplaced { marks: marks.all() });
        }
        let status = Arc::new(StoreStatus::new(options.store_timeout, options.bounds.meters.clone()));
        let pipeline = Arc::new(Pipeline::new(store, slot, opened.epoch, writer, status.clone()));
        let tickets = Tickets::new(opened.key.as_bytes(), opened.epoch, opened.tickets_since);
        let tickets = (!options.reclaims_nothing).then_some(tickets);
        let environment =
            Environment::over_store(options.bounds(), clock, status, tickets, &opened.key).under(lease);
        let house = Self::with(environment, Some(pipeline.clone()), recovery, marks);
        house.inner.live_by(&options);
        buckets.into_iter().for_each(|bucket| house.inner.add(bucket));
        house.inner.has_restored();
        if house.inner.recovery_of_new().is_some() {
            house.inner.watch_recovery_of_new();
            spawn(end_recovery_of_new(Arc::downgrade(&house.inner)));
        }
        pipeline.begin_with(first_writes).await.map_err(OpenError::Lost)?;
        let inner = Arc::downgrade(&house.inner);
        spawn(pipeline.run(move || {
            if let Some(house) = inner.upgrade() {
                house.is_over();
            }
        }));
        Ok(house)
    }

    /// Ends the house: from now on nothing is granted. All changes are made durable, the store is closed, and
    /// then requests that wait are refused, as nothing will let them go on.
    ///
    /// If no remote agent holds a web lock any more the stop is clean, so that the next start need not
    /// recover. Otherwise a list of these locks is left in the store, by hashes: the next start waits for
    /// their holders, and grants all other names at once. A house that waits for holders itself leaves no
    /// list, nor does one in which more than 10,000 web locks are held; then the next start recovers.
    ///
    /// # Cancel safety
    ///
    /// The house ends all the same.
    pub async fn close(&self) -> StoreState {
        self.inner.begin_to_close();
        // Asked before the buckets: one that comes later recovers only if this says so.
        let recovers_new = self.inner.recovers_new_buckets();
        let buckets = self.inner.buckets_in_order();
        buckets.iter().for_each(|bucket| _ = bucket.handle(Command::Close));
        let last = if recovers_new { LastWrite::Unlisted } else { LastWrite::of(&buckets) };
        let Some(pipeline) = self.inner.pipeline() else {
            // With a store they end with it.
            buckets.iter().for_each(|bucket| bucket.end_events());
            return StoreState::Closed(last.left());
        };
        drop(buckets);
        pipeline.stop(Stop::Closed(last));
        pipeline.status().ended().await
    }

    /// Whether the house has begun to close, or has ended.
    ///
    /// To ensure correctness, a session of a fleet makes no ping and no welcome from then on, also while it
    /// is not known whether the store has the last write: the next owner of the slot may count the leases of
    /// clients from that write on. What was made before may still be sent, as it rests on pongs that came
    /// before.
    pub fn is_closing(&self) -> bool {
        self.inner.is_closing()
    }

    /// Ends a house whose slot is another node's: every lock is lost, and nothing is granted any more.
    pub(crate) fn lose(&self) {
        if let Some(pipeline) = self.inner.pipeline() {
            pipeline.lose();
        }
    }

    /// Whether remote holders of before may still come back for web locks.
    pub fn waits_for_holders(&self) -> bool {
        self.inner.recovers_new_buckets() || self.inner.buckets().iter().any(Shared::awaits_holders)
    }

    /// Whether the node that serves the slot of this house may speak; none if the house is of no fleet.
    pub fn slot_lease(&self) -> Option<&Arc<SlotLease>> {
        self.inner.environment.lease.as_ref()
    }

    /// Names this life of a house over a store: no other life of any house of that store has the same name.
    pub fn life(&self) -> Option<String> {
        self.inner.pipeline().map(|pipeline| pipeline.life())
    }

    /// Whether remote holders of web locks may reclaim them after a restart.
    pub fn takes_reclaims(&self) -> bool {
        self.inner.environment.tickets.is_some()
    }

    /// The state of the house's store. Without a store it always serves.
    pub fn store_state(&self) -> StoreState {
        self.inner.pipeline().map_or(StoreState::Serving, |pipeline| pipeline.status().get())
    }

    /// Waits until no change will be durable any more: the house was closed, or has lost its store, and then
    /// its owner should end the process. By then nothing is granted any more, and every guard of a lost store
    /// shows its loss. Never returns without a store.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&self) -> StoreState {
        match self.inner.pipeline() {
            Some(pipeline) => pipeline.status().ended().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until all changes that have to be durable are, or never will be; the state says which.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn serving(&self) -> StoreState {
        let Some(pipeline) = self.inner.pipeline() else { return StoreState::Serving };
        let mut state = pipeline.status().watch();
        let is_settled = |state: &StoreState| *state == StoreState::Serving || state.is_over();
        let settled = state.wait_for(is_settled).await.map(|state| state.clone());
        settled.unwrap_or(StoreState::Closed(Left::Unknown))
    }

    /// Waits until the store cannot write, for the moment or for good; the state says why. Never returns
    /// without a store.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn unavailable(&self) -> StoreState {
        match self.inner.pipeline() {
            Some(pipeline) => pipeline.status().not_serving().await,
            None => std::future::pending().await,
        }
    }

    /// The store, for operations that only it offers, such as a backup.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.inner.pipeline().map(|pipeline| pipeline.store())
    }

    /// How many refusals of offline locks and claims this life of the house has left out of its history, as
    /// too many different ones came at once ([bounds](crate::EventBounds)).
    pub fn refusals_left_out(&self) -> u64 {
        self.inner.pipeline().map_or(0, |pipeline| pipeline.refusals_left_out())
    }

    /// A page of the history of a bucket, the latest entries first: the offline locks, claims, assignments
    /// and owners that have ended. `before` is the [`next`](HistoryPage::next) of the page before. A page may
    /// have fewer entries than `limit`, or none, and still have a next one. Without a store there is no
    /// history.
    ///
    /// # Errors
    ///
    /// [`HistoryError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn history(
        &self,
        bucket: &BucketKey,
        before: Option<u64>,
        limit: usize,
        filter: HistoryFilter,
    ) -> Result<HistoryPage, HistoryError> {
        let Some(pipeline) = self.inner.pipeline() else { return Ok(HistoryPage::default()) };
        let query = HistoryQuery { scope: bucket.scope(), before, limit, filter };
        let page = pipeline.store().history(query);
        timeout(pipeline.status().timeout, page).await.unwrap_or_else(|_| {
            let why = "it has not answered in time".into();
            Err(StoreUnavailable::Away { place: "the store".into(), why }.into())
        })
    }
}

/// The marks that count before any is known.
fn first_marks(clock: &Clock, is_of_fleet: bool) -> Marks {
    if is_of_fleet {
        // All nodes go on above the clock of the database (`Opened::token_floor`): by their own clocks one
        // could be ahead of what the tokens leap to after a failover.
        return Marks::default();
    }
    Marks::at(clock.wall(clock.now()))
}

/// Ends the recovery of buckets that have no records in the store, also if none came: it would be as long
/// again at the next start.
async fn end_recovery_of_new(house: Weak<Inner>) {
    while let Some(inner) = house.upgrade()
        && let Some(left) = inner.recovery_of_new()
    {
        if left.is_zero() {
            return inner.one_has_recovered();
        }
        drop(inner);
        sleep(left).await;
    }
}

impl Recovery {
    /// Begins it where it has to be. With a list of what was held at the last stop only those names wait.
    /// `wait_ms` is how long the former writer may go on to renew leases after `now`.
    fn new(
        opened: &mut Opened,
        buckets: &mut [Restored],
        now: Instant,
        options: &Options,
        wait_ms: u64,
    ) -> Self {
        let length_ms = opened.longest_lease_ms.max(options.lease_ms);
        let length_ms = if length_ms > 0 { length_ms.saturating_add(wait_ms) } else { 0 };
        let until = now.plus_millis(length_ms);
        let mut count = 0;
        let ignores_list = options.always_recovers || options.reclaims_nothing || opened.restored;
        let listed = opened.held.take().filter(|_| !ignores_list && length_ms > 0);
        let listed = listed.and_then(|held| listed_by_bucket(held, buckets));
        if let Some(listed) = listed {
            let key = KeyedHash::new(opened.key.as_bytes());
            for (nth, locks) in listed {
                let bucket = &mut buckets[nth];
                let names = NameHasher::new(&key, &BucketKey::from(&*bucket.scope));
                bucket.manager.begin_absence(now, until, AWAY);
                bucket.absence = Some(Box::new(Absence::of(names, locks)));
                count += 1;
            }
            return Self::of(count, None);
        }
        for bucket in buckets {
            let must = options.always_recovers || opened.recovers(bucket.needs_recovery);
            if must && length_ms > 0 {
                bucket.manager.begin_recovery(until);
                count += 1;
            }
        }
        let of_new = (options.always_recovers || opened.restored) && length_ms > 0;
        Self::of(count, of_new.then_some(until))
    }
}

/// The places of the buckets that have listed locks, with these. None if one of them is not there: then the
/// list is not believed.
fn listed_by_bucket(held: HeldList, buckets: &[Restored]) -> Option<Vec<(usize, Vec<HeldWebLock>)>> {
    let places = buckets.iter().enumerate().map(|(nth, bucket)| (bucket.scope.clone(), nth));
    let places: HashMap<_, _> = places.collect();
    let listed = held.into_buckets().into_iter().filter(|(_, locks)| !locks.is_empty());
    listed.map(|(scope, locks)| Some((*places.get(&scope)?, locks))).collect()
}
