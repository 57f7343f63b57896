//! The parts that all buckets of a house share and none of them changes: the clock, the keys, the bounds, the
//! state of the store.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockhouse_core::Limits;
use lockhouse_store::SecretKey;

use crate::engine::clock::Clock;
use crate::engine::commit::slot_lease::SlotLease;
use crate::engine::commit::store_state::StoreStatus;
use crate::engine::events::EventBounds;
use crate::engine::memory::{MemoryBudget, MemoryReservation};
use crate::engine::meters::Meters;
use crate::engine::ticket::Tickets;
use crate::error::StoreError;
use crate::keyed_hash::KeyedHash;
use crate::secret::no_randomness;

/// The surroundings of the buckets of one house.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) bounds: Bounds,
    pub(crate) clock: Clock,
    /// The state of the house's store; none if nothing is durable.
    pub(crate) store: Option<Arc<StoreStatus>>,
    /// None if web locks cannot be brought back after a restart.
    pub(crate) tickets: Option<Tickets>,
    /// Whether the node of a fleet may speak whose house it is.
    pub(crate) lease: Option<Arc<SlotLease>>,
    /// The key that secrets are derived from. Without a store it is made with the first secret.
    secret_key: OnceLock<KeyedHash>,
}

/// How much there may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// In each bucket.
    pub(crate) limits: Limits,
    /// In memory, in all buckets of each tenant; none: as much as comes.
    pub(crate) memory: Option<MemoryBudget>,
    /// Whether large steps block their worker thread in place.
    pub(crate) block_in_place: bool,
    /// What happens is counted there, if anywhere.
    pub(crate) meters: Option<Meters>,
    /// What happens is kept so far from the start of a bucket on, if it is.
    pub(crate) events: Option<EventBounds>,
}

impl Environment {
    /// Without a store.
    pub(crate) fn in_memory(bounds: Bounds, clock: Clock) -> Self {
        Self { bounds, clock, store: None, tickets: None, lease: None, secret_key: OnceLock::new() }
    }

    /// Over a store, which keeps the key.
    pub(crate) fn over_store(
        bounds: Bounds,
        clock: Clock,
        store: Arc<StoreStatus>,
        tickets: Option<Tickets>,
        secret_key: &SecretKey,
    ) -> Self {
        let secret_key = KeyedHash::new(secret_key.as_bytes()).into();
        Self { bounds, clock, store: Some(store), tickets, lease: None, secret_key }
    }

    /// Of a house that may speak as long as the node of a fleet may.
    pub(crate) fn under(mut self, lease: Option<Arc<SlotLease>>) -> Self {
        self.lease = lease;
        self
    }

    /// The key that secrets are derived from.
    pub(crate) fn secret_key(&self) -> Result<&KeyedHash, StoreError> {
        if let Some(key) = self.secret_key.get() {
            return Ok(key);
        }
        let key = SecretKey::random().map_err(|error| no_randomness(&error))?;
        Ok(self.secret_key.get_or_init(|| KeyedHash::new(key.as_bytes())))
    }

    /// The memory of one more bucket of that tenant, where that has a bound.
    pub(crate) fn reservation_of(&self, tenant: &str) -> Option<MemoryReservation> {
        self.bounds.memory.as_ref().map(|budget| budget.of(tenant))
    }

    /// Whether new changes can be made durable. A node that has fallen silent has had no commit confirmed for
    /// most of its slot lease.
    pub(crate) fn check_store(&self) -> Result<(), StoreError> {
        self.store.as_ref().map_or(Ok(()), |store| store.check())?;
        if self.lease.as_ref().is_some_and(|lease| lease.has_fallen_silent()) {
            let why = "no commit of the server is confirmed at the moment".to_owned();
            return Err(StoreError::Unavailable { why, retry_after: Duration::from_secs(1) });
        }
        Ok(())
    }

    /// Whether no change will be durable any more.
    pub(crate) fn store_is_over(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_over())
    }

    /// Why the answer to a question never came.
    pub(crate) fn why_unanswered(&self) -> StoreError {
        self.check_store().err().unwrap_or(StoreError::Closed)
    }

    /// The answer to a command that was carried out, and of which the store never told whether it is kept.
    pub(crate) fn outcome_unknown(&self) -> StoreError {
        let why = self.check_store().err();
        let why = why.map_or_else(|| "the store has not confirmed it".to_owned(), |why| why.to_string());
        StoreError::OutcomeUnknown { why }
    }
}
