//! The state of a house's store, as all parts of the house may see it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse_store::Fatal;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::engine::meters::Meters;
use crate::engine::sync::AtomicU64;
use crate::error::StoreError;
use crate::loss::Loss;

/// The state of a house's store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreState {
    /// All changes that have to be durable are durable.
    Serving,
    /// The store cannot write at the moment, such as while the disk is full. The write is tried again; held
    /// locks stay held meanwhile.
    Unavailable {
        /// One line that names the fault and the remedy.
        why: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// Another process writes to the store now. Every lock of this house is lost, and it grants nothing any
    /// more.
    Fenced,
    /// The store can no longer be trusted. Every lock of this house is lost; the process must end, and the
    /// next one starts from the durable state.
    Failed(Fatal),
    /// [`House::close`](crate::House::close) was called.
    Closed(Left),
}

/// What a closed house has left for the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// No remote agent held a web lock: the stop was clean, and the next start need not recover.
    Nothing,
    /// A list of what remote agents held: the next start waits for these, and for no others.
    Listed {
        /// How many web locks.
        locks: usize,
    },
    /// It is not known who may come back for a web lock: the next start recovers.
    Unknown,
}

impl StoreState {
    /// Whether no change will be durable any more.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Serving | Self::Unavailable { .. })
    }
}

/// The state of the store, and what is known to be durable in it. The pipeline writes this status, and the
/// buckets read it.
#[derive(Debug)]
pub(crate) struct StoreStatus {
    state: watch::Sender<StoreState>,
    /// Wakes those that wait for any state but serving, in the order in which they came.
    away: Notify,
    /// The state is final, and every bucket has been notified of it.
    ended: watch::Sender<bool>,
    /// A lease of this length may be given, as the store knows of it.
    longest_lease_ms: AtomicU64,
    /// How long an answer of the store is waited for.
    pub(crate) timeout: Duration,
    /// Commits are counted there, if anywhere.
    pub(crate) meters: Option<Meters>,
}

impl StoreStatus {
    pub(crate) fn new(timeout: Duration, meters: Option<Meters>) -> Self {
        Self {
            state: watch::Sender::new(StoreState::Serving),
            away: Notify::new(),
            ended: watch::Sender::new(false),
            longest_lease_ms: AtomicU64::new(0),
            timeout,
            meters,
        }
    }

    /// The state of the store; changes are marked.
    pub(crate) fn watch(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    /// The present state of the store.
    pub(crate) fn get(&self) -> StoreState {
        self.state.borrow().clone()
    }

    /// Whether no change will be durable any more.
    pub(crate) fn is_over(&self) -> bool {
        self.state.borrow().is_over()
    }

    /// Whether new changes can be made durable.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match &*self.state.borrow() {
            StoreState::Serving => Ok(()),
            state => Err(StoreError::from(state)),
        }
    }

    /// Why every lock is lost, if the store is.
    pub(crate) fn loss(&self) -> Option<Loss> {
        match &*self.state.borrow() {
            StoreState::Fenced => Some(Loss::Fenced),
            StoreState::Failed(_) => Some(Loss::StoreFailed),
            _ => None,
        }
    }

    /// Waits until the store cannot write, for the moment or for good.
    pub(crate) async fn not_serving(&self) -> StoreState {
        loop {
            let away = self.away.notified();
            let state = self.get();
            if state != StoreState::Serving {
                return state;
            }
            away.await;
        }
    }

    /// Waits until the store cannot write, and still cannot after the time that its answer is waited for.
    pub(crate) async fn given_up(&self) {
        loop {
            self.not_serving().await;
            sleep(self.timeout).await;
            if self.get() != StoreState::Serving {
                return;
            }
        }
    }

    /// Waits until no change will be durable any more, and every bucket has been notified of that; gives the
    /// final state. Who ends the process or its sessions then cannot have a bucket grant what they release.
    pub(crate) async fn ended(&self) -> StoreState {
        // The sender is here.
        _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        self.get()
    }

    /// Every bucket has been notified of the final state.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Enters a state, unless the present one is final.
    pub(crate) fn set(&self, state: StoreState) {
        let is_away = state != StoreState::Serving;
        self.state.send_if_modified(|known| {
            let is_new = *known != state && !known.is_over();
            if is_new {
                *known = state;
            }
            is_new
        });
        if is_away {
            self.away.notify_waiters();
        }
    }

    /// Whether the store knows that leases of that length are given.
    pub(crate) fn knows_lease(&self, ms: u64) -> bool {
        ms <= self.longest_lease_ms.load(Ordering::Acquire)
    }

    /// The store knows now that leases of that length are given.
    pub(crate) fn note_lease(&self, ms: u64) {
        self.longest_lease_ms.fetch_max(ms, Ordering::AcqRel);
    }
}

impl From<&StoreState> for StoreError {
    fn from(state: &StoreState) -> Self {
        match state {
            StoreState::Unavailable { why, retry_after } => {
                Self::Unavailable { why: why.clone(), retry_after: *retry_after }
            }
            StoreState::Fenced => Self::Fenced,
            StoreState::Failed(fatal) => Self::Failed(fatal.to_string()),
            StoreState::Serving | StoreState::Closed(_) => Self::Closed,
        }
    }
}
