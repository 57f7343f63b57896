//! Who waits in this process: the futures of pending requests, and the guards that want to hear of a loss.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use lockhouse_core::{FencingToken, LossReason, RequestId};
use tokio::sync::Notify;

/// Why a lock is held no more although its holder did not release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Another request stole the name.
    Stolen,
    /// It was held for its longest hold, or its agent's lease ran out.
    Expired,
    /// Its agent has ended.
    Terminated,
    /// An operator broke it.
    Broken,
    /// The server knows nothing of its session any more: it was started anew, or ended the session.
    SessionEnded,
}

impl From<LossReason> for Loss {
    fn from(reason: LossReason) -> Self {
        match reason {
            // A younger lock stands in its place, whether it was asked for now or is brought back.
            LossReason::Stolen | LossReason::Superseded => Self::Stolen,
            LossReason::Expired => Self::Expired,
        }
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stolen => "stolen by another request",
            Self::Expired => "expired",
            Self::Terminated => "its agent has ended",
            Self::Broken => "broken by an operator",
            Self::SessionEnded => "the server knows nothing of its session any more",
        })
    }
}

impl std::error::Error for Loss {}

/// The waiting of one bucket. A cell belongs to the request that is in its slot; when the request ends, the cell is idle again.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// By request slot; only as long as the highest slot that ever waited.
    cells: Vec<Cell>,
    /// By request serial; of lost locks until their guards go, and of held ones whose guards listen.
    losses: HashMap<u64, Lost>,
}

#[derive(Debug, Default)]
enum Cell {
    #[default]
    Idle,
    /// A future waits for its grant.
    Waiting(Waker),
    /// Granted, but the future has not been polled since.
    Granted(FencingToken),
}

#[derive(Debug, Default)]
struct Lost {
    reason: Option<Loss>,
    /// The token of a lock that was lost before its future heard of the grant.
    undelivered: Option<FencingToken>,
    heard: Option<Arc<Notify>>,
}

/// What a future finds when it is polled.
#[derive(Debug)]
pub(crate) enum Wait {
    Granted(FencingToken),
    Pending,
    /// Neither pending nor granted: its agent has ended.
    Gone,
}

impl Waiters {
    /// The future of that pending request waits with this waker. The waker that it displaces is to be dropped once the mutex is
    /// free, as a waker may own a task that owns a guard.
    pub(crate) fn wait(&mut self, request: RequestId, waker: &Waker) -> Option<Waker> {
        let slot = request.slot();
        if self.cells.len() <= slot {
            self.cells.resize_with(slot + 1, Cell::default);
        }
        let cell = &mut self.cells[slot];
        if matches!(cell, Cell::Waiting(known) if known.will_wake(waker)) {
            return None;
        }
        match std::mem::replace(cell, Cell::Waiting(waker.clone())) {
            Cell::Waiting(displaced) => Some(displaced),
            _ => None,
        }
    }

    /// Takes the grant of the request, if it has come.
    pub(crate) fn take_grant(&mut self, request: RequestId, pending: bool, ended: bool) -> Wait {
        if pending {
            return Wait::Pending;
        }
        if ended {
            // A lock that was lost before its future ran is handed over all the same: its task starts, and hears of the loss.
            let lost = self.losses.get_mut(&request.serial()).and_then(|lost| lost.undelivered.take());
            return lost.map_or(Wait::Gone, Wait::Granted);
        }
        match self.cells.get_mut(request.slot()).map(std::mem::take) {
            Some(Cell::Granted(token)) => Wait::Granted(token),
            _ => Wait::Gone,
        }
    }

    /// The request was granted.
    pub(crate) fn granted(&mut self, request: RequestId, token: FencingToken) -> Option<Waker> {
        match std::mem::replace(self.cells.get_mut(request.slot())?, Cell::Granted(token)) {
            Cell::Waiting(waker) => Some(waker),
            _ => None,
        }
    }

    /// The lock was lost. Whoever listens is to be told once the mutex is free.
    pub(crate) fn lost(&mut self, request: RequestId, reason: Loss) -> Option<Arc<Notify>> {
        let lost = self.losses.entry(request.serial()).or_default();
        lost.reason = Some(reason);
        if let Some(Cell::Granted(token)) = self.cells.get_mut(request.slot()).map(std::mem::take) {
            lost.undelivered = Some(token);
        }
        lost.heard.take()
    }

    /// The agent of the lock is about to end. Whoever listens is to be told once the mutex is free.
    pub(crate) fn not_listened_to(&mut self, request: RequestId) -> Option<Arc<Notify>> {
        self.losses.remove(&request.serial()).and_then(|lost| lost.heard)
    }

    /// Nobody waits for this request any more, which has ended just now: before another can be in its slot.
    pub(crate) fn forget(&mut self, request: RequestId) -> Option<Waker> {
        match self.cells.get_mut(request.slot()).map(std::mem::take) {
            Some(Cell::Waiting(waker)) => Some(waker),
            _ => None,
        }
    }

    /// The guard of the lock is going.
    #[inline]
    pub(crate) fn guard_dropped(&mut self, request: RequestId) {
        if !self.losses.is_empty() {
            self.losses.remove(&request.serial());
        }
    }

    /// Why the lock, which is held no more, was lost.
    pub(crate) fn loss_of(&self, request: RequestId) -> Loss {
        self.losses.get(&request.serial()).and_then(|lost| lost.reason).unwrap_or(Loss::Terminated)
    }

    /// Tells when the lock, which is held, is lost.
    pub(crate) fn listen(&mut self, request: RequestId) -> Arc<Notify> {
        self.losses.entry(request.serial()).or_default().heard.get_or_insert_default().clone()
    }

    /// The manager has become empty: gives back what a crowd left behind.
    #[inline]
    pub(crate) fn all_gone(&mut self) {
        const KEPT: usize = 1024;
        if self.cells.capacity() > KEPT {
            self.cells = Vec::new();
        }
        if self.losses.capacity() > KEPT && self.losses.is_empty() {
            self.losses = HashMap::new();
        }
    }
}
