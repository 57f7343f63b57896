//! A bucket: one lock manager behind one mutex, and the way from its effects to their receivers.
//!
//! ```text
//!   command ─▶ [mutex: stamp now, handle, route effects] ─▶ outcome
//!                                     │
//!                    the outbox ◀─────┤ what rests on something uncommitted waits there
//!                                     │
//!               a future's waker ◀────┴────▶ a port's inbox          wakers run after the mutex is free
//! ```

mod changes;
pub(crate) mod deferred;
mod delivery;
mod durability;
pub(crate) mod execute;
pub(crate) mod results;
pub(crate) mod retention;
pub(crate) mod shared;
mod state;
pub(crate) mod steps;
mod wakeups;

use std::sync::Arc;
use std::time::SystemTime;

use lockhouse_core::{Command, Discipline, FencingToken, HoldToBreak, Instant, Name, NameBuf, Outcome};
use tokio::sync::watch;

use crate::engine::bucket::shared::Shared;
use crate::engine::commit::slot_lease::SlotLease;
use crate::engine::commit::store_state::StoreState;
use crate::engine::events::{EventFilter, EventPosition, Events, EventsFrom};
use crate::engine::key::BucketKey;
use crate::engine::memory::MemoryReservation;
use crate::error::{BreakError, Quota, StoreError};
use crate::snapshot::{Holder, Snapshot};

/// One name space of locks. <https://w3c.github.io/web-locks/#lock-manager>. Cheap to clone; every clone is
/// the same bucket.
#[derive(Clone, Debug)]
pub struct Bucket(pub(crate) Arc<Shared>);

impl Bucket {
    /// The key that separates this bucket from others.
    pub fn key(&self) -> &BucketKey {
        self.0.key()
    }

    /// Now, by the clock that leases run by.
    pub fn now(&self) -> Instant {
        self.0.environment.clock.now()
    }

    /// When that was, or will be, by the calendar.
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.0.environment.clock.wall(at)
    }

    /// All that is held and pending, returned once it is durable.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.snapshot_in(None).await
    }

    /// As [`snapshot`](Self::snapshot). The answer holds that memory as long as it waits for the store, even
    /// if its caller has gone.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn look(&self, memory: Arc<MemoryReservation>) -> Result<Snapshot, StoreError> {
        self.snapshot_in(Some(memory)).await
    }

    async fn snapshot_in(&self, memory: Option<Arc<MemoryReservation>>) -> Result<Snapshot, StoreError> {
        match self.0.execute_volatile(Command::Snapshot, memory).await? {
            Outcome::Snapshot(snapshot) => Ok(Snapshot::from_core(snapshot, &|at| self.wall(at))),
            outcome => unreachable!("a snapshot cannot be answered with {outcome:?}"),
        }
    }

    /// What happens in the bucket, one event after the other, from there on: grants, waits, ends and refusals
    /// of all disciplines, and the beginning and end of owners. An event comes once it is durable, as a
    /// snapshot does, and in the order in which all of the bucket happened.
    ///
    /// A bucket keeps its latest [events](crate::EventBounds). A reader that falls behind gets a
    /// [gap](crate::EventItem::Gap), and then the present state.
    ///
    /// ```
    /// use lockhouse::{EventFilter, EventItem, EventsFrom, House, NameBuf, core::EventKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let bucket = House::new().bucket("orders");
    /// let report = EventFilter { name: Some(NameBuf::new("report")?), ..EventFilter::default() };
    /// let mut events = bucket.events(EventsFrom::Now, report);
    ///
    /// let agent = bucket.agent("worker 7")?;
    /// drop(agent.locks().request("report").await?);
    /// let mut kinds = Vec::new();
    /// while kinds.len() < 2 {
    ///     let Some(Ok(EventItem::Event(event))) = events.next().await else { panic!() };
    ///     kinds.push(event.kind);
    /// }
    /// assert!(matches!(kinds[..], [EventKind::Granted, EventKind::Ended(_)]));
    /// # Ok(()) }
    /// ```
    pub fn events(&self, from: EventsFrom, filter: EventFilter) -> Events {
        Events::new(self.clone(), self.0.events().clone(), from, filter)
    }

    /// All that is held and pending of what the filter admits, and the place of the last event that it rests
    /// on: returned once it is durable, as [`snapshot`](Self::snapshot) is. With a name it costs
    /// O(holders and requests of that name), else as much as a snapshot.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn snapshot_at(&self, filter: &EventFilter) -> Result<(Snapshot, EventPosition), StoreError> {
        let log = self.0.events().clone();
        let (snapshot, position) = self.0.snapshot_at(filter.name.as_ref().map(NameBuf::as_name)).await?;
        let mut snapshot = Snapshot::from_core(snapshot, &|at| self.wall(at));
        for list in [&mut snapshot.held, &mut snapshot.pending] {
            list.retain(|entry| {
                filter.admits_name(Some(&entry.name))
                    && filter.discipline.is_none_or(|it| it == Discipline::from(entry.kind))
            });
        }
        Ok((snapshot, position.unwrap_or_else(|| log.position())))
    }

    /// How many requests and locks there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many bytes of memory a snapshot takes at most, about.
    pub fn bytes_of_snapshot(&self) -> usize {
        self.0.bytes_of_snapshot()
    }

    /// Whether nothing is held and nothing pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any web lock is held.
    pub fn has_held(&self) -> bool {
        self.0.with(|state| state.manager().held_web_locks() > 0)
    }

    /// Breaks a hold, be it a web lock, an offline lock or a claim: exactly the one with that token, and
    /// never a later hold of the name. Its holder learns that an operator broke it, and the operator's words;
    /// the next that waits is granted. Returns the holder as it was, or none if there was no such hold.
    ///
    /// The break of an offline lock or a claim is durable before this returns. A web lock is not durable: if
    /// the process dies before its holder has heard of it, the holder may reclaim the lock.
    ///
    /// # Errors
    ///
    /// [`BreakError`]: the operator is longer than [`label_bytes`](crate::Limits::label_bytes), or the reason
    /// than [`metadata_bytes`](crate::Limits::metadata_bytes); or the store cannot write.
    ///
    /// # Cancel safety
    ///
    /// Once polled the hold is broken, whether or not the answer is awaited.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let house = lockhouse::House::new();
    /// let bucket = house.bucket("orders");
    /// let agent = bucket.agent("worker 7")?;
    /// let lock = agent.locks().request("report").await?;
    ///
    /// let broken = bucket.break_hold(lock.name(), lock.fencing_token(), "ops", Some("it hangs")).await?;
    /// assert_eq!(broken.unwrap().client_id, "worker 7");
    /// assert_eq!(lock.lost().await.to_string(), "broken by an operator: it hangs");
    /// # Ok(()) }
    /// ```
    pub async fn break_hold(
        &self,
        name: Name<'_>,
        token: FencingToken,
        operator: &str,
        reason: Option<&str>,
    ) -> Result<Option<Holder>, BreakError> {
        let command = Command::Break(HoldToBreak { name, token, operator, reason });
        let outcome = if self.0.with(|state| state.manager().is_held_durably(name)) {
            self.0.execute_durable(command, |_| {}).await?
        } else {
            self.0.execute_volatile(command, None).await?
        };
        match outcome {
            Outcome::Broken(holder) => Ok(holder.map(|holder| Holder::new(*holder, &|at| self.wall(at)))),
            Outcome::Refused(refusal) => Err(BreakError::Quota(
                Quota::of(&refusal).expect("every other refusal is of another command"),
            )),
            outcome => unreachable!("a break cannot be answered with {outcome:?}"),
        }
    }

    /// Ends all grants: pending requests go on waiting, the rest is refused.
    pub fn close(&self) {
        self.0.handle(Command::Close);
    }

    /// Whether the node may speak whose house the bucket is in; none if it is no house of a fleet.
    pub fn slot_lease(&self) -> Option<&Arc<SlotLease>> {
        self.0.environment.lease.as_ref()
    }

    /// Waits until the house of the bucket has ended, as [`House::ended`](crate::House::ended) does.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&self) -> StoreState {
        match &self.0.environment.store {
            Some(store) => store.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Marked as changed after every command that may have changed something; snapshots and renewals are
    /// none.
    pub fn changed(&self) -> watch::Receiver<()> {
        self.0.changed()
    }
}
