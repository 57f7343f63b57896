//! The waiters of this process: the futures of pending requests, and the guards that want to learn of a loss.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use lockhouse_core::{FencingToken, Refusal, RequestId, RequestStatus};
use tokio::sync::Notify;

use crate::loss::Loss;

/// The waiting of one bucket. A cell belongs to the request that is in its slot; when the request ends, the
/// cell is idle again.
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
    unreported: Unreported,
    heard: Option<Arc<Notify>>,
}

/// The part of its end that the future of a request does not know yet.
#[derive(Debug, Default)]
enum Unreported {
    #[default]
    Nothing,
    /// The end, which may not be announced yet.
    Withheld(Waker),
    /// The grant, which came before the loss of the lock.
    Grant(FencingToken),
    /// The refusal.
    Refusal(Refusal),
}

/// The result of a poll by a future.
#[derive(Debug)]
pub(crate) enum Wait {
    Granted(FencingToken),
    Refused(Refusal),
    /// Also: granted or refused, which may not be announced yet.
    Pending,
    /// Neither pending nor granted: its agent has ended.
    Gone,
    /// The house has lost its store.
    Over(Loss),
}

/// So much memory of a crowd is kept.
const KEPT: usize = 1024;

impl Waiters {
    /// The future of that request, which is pending or about to be granted, waits with this waker. The waker
    /// that it displaces is to be dropped once the mutex is free, as a waker may own a task that owns a
    /// guard.
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

    /// The state of the request. If it has to wait on, the waker takes the place of the known one, which is
    /// given back.
    pub(crate) fn look(
        &mut self,
        request: RequestId,
        status: RequestStatus,
        waker: Option<&Waker>,
    ) -> (Wait, Option<Waker>) {
        if status == RequestStatus::Ended {
            return self.look_at_ended(request, waker);
        }
        match self.cells.get_mut(request.slot()) {
            Some(cell @ Cell::Granted(_)) => {
                let Cell::Granted(token) = std::mem::take(cell) else {
                    unreachable!("it was just looked at")
                };
                (Wait::Granted(token), None)
            }
            Some(Cell::Waiting(_)) => (Wait::Pending, waker.and_then(|waker| self.wait(request, waker))),
            _ => (Wait::Gone, None),
        }
    }

    fn look_at_ended(&mut self, request: RequestId, waker: Option<&Waker>) -> (Wait, Option<Waker>) {
        let Some(lost) = self.losses.get_mut(&request.serial()) else { return (Wait::Gone, None) };
        match std::mem::take(&mut lost.unreported) {
            Unreported::Nothing => (Wait::Gone, None),
            // The lock is handed over all the same: the task starts, and learns of the loss.
            Unreported::Grant(token) => (Wait::Granted(token), None),
            Unreported::Refusal(refusal) => {
                self.losses.remove(&request.serial());
                (Wait::Refused(refusal), None)
            }
            Unreported::Withheld(known) => {
                let (kept, displaced) = match waker {
                    Some(waker) if !known.will_wake(waker) => (waker.clone(), Some(known)),
                    _ => (known, None),
                };
                lost.unreported = Unreported::Withheld(kept);
                (Wait::Pending, displaced)
            }
        }
    }

    /// The request was granted, which may be announced now; `is_held` if it was not lost meanwhile.
    pub(crate) fn granted(
        &mut self,
        request: RequestId,
        token: FencingToken,
        is_held: bool,
    ) -> Option<Waker> {
        if !is_held {
            return self.report_ended(request, Unreported::Grant(token));
        }
        match std::mem::replace(self.cells.get_mut(request.slot())?, Cell::Granted(token)) {
            Cell::Waiting(waker) => Some(waker),
            _ => None,
        }
    }

    /// The request is over, as it was refused, which may be announced [later](Self::refused).
    pub(crate) fn will_be_refused(&mut self, request: RequestId) {
        if let Some(Cell::Waiting(waker)) = self.cells.get_mut(request.slot()).map(std::mem::take) {
            self.losses.entry(request.serial()).or_default().unreported = Unreported::Withheld(waker);
        }
    }

    /// The request was refused, which may be announced now.
    pub(crate) fn refused(&mut self, request: RequestId, refusal: Refusal) -> Option<Waker> {
        self.report_ended(request, Unreported::Refusal(refusal))
    }

    /// A future that is gone gets no report.
    fn report_ended(&mut self, request: RequestId, end: Unreported) -> Option<Waker> {
        let lost = self.losses.get_mut(&request.serial())?;
        match std::mem::replace(&mut lost.unreported, end) {
            Unreported::Withheld(waker) => Some(waker),
            _ => None,
        }
    }

    /// The lock was lost. Its listener is to be notified once the mutex is free.
    pub(crate) fn lost(&mut self, request: RequestId, reason: Loss) -> Option<Arc<Notify>> {
        let lost = self.losses.entry(request.serial()).or_default();
        lost.reason = Some(reason);
        match self.cells.get_mut(request.slot()).map(std::mem::take) {
            Some(Cell::Granted(token)) => lost.unreported = Unreported::Grant(token),
            // Its grant may not be announced yet.
            Some(Cell::Waiting(waker)) => lost.unreported = Unreported::Withheld(waker),
            _ => {}
        }
        lost.heard.take()
    }

    /// All waiters are to be woken once the mutex is free: no request will be granted any more.
    pub(crate) fn wake_all(&self) -> Vec<Waker> {
        let withheld = self.losses.values().filter_map(|lost| match &lost.unreported {
            Unreported::Withheld(waker) => Some(waker),
            _ => None,
        });
        let waiting = self.cells.iter().filter_map(|cell| match cell {
            Cell::Waiting(waker) => Some(waker),
            _ => None,
        });
        withheld.chain(waiting).cloned().collect()
    }

    /// Every lock is lost. The listeners are to be notified once the mutex is free.
    pub(crate) fn lose_all(&mut self) -> Vec<Arc<Notify>> {
        self.losses.values_mut().filter_map(|lost| lost.heard.take()).collect()
    }

    /// The agent of the lock is about to end. Its listener is to be notified once the mutex is free.
    pub(crate) fn not_listened_to(&mut self, request: RequestId) -> Option<Arc<Notify>> {
        self.losses.remove(&request.serial()).and_then(|lost| lost.heard)
    }

    /// This request has ended just now and has no waiter any more. The cell is freed before another request
    /// can be in its slot.
    pub(crate) fn forget(&mut self, request: RequestId) -> Option<Waker> {
        match self.cells.get_mut(request.slot()).map(std::mem::take) {
            Some(Cell::Waiting(waker)) => Some(waker),
            _ => None,
        }
    }

    /// The guard of the lock, or the future of the request, is going. The waker is given back, to be dropped
    /// once the mutex is free.
    #[inline]
    pub(crate) fn guard_dropped(&mut self, request: RequestId) -> Option<Waker> {
        if self.losses.is_empty() {
            return None;
        }
        match self.losses.remove(&request.serial())?.unreported {
            Unreported::Withheld(waker) => Some(waker),
            _ => None,
        }
    }

    /// Why the lock, which is held no more, was lost.
    pub(crate) fn loss_of(&self, request: RequestId) -> Loss {
        self.losses.get(&request.serial()).and_then(|lost| lost.reason.clone()).unwrap_or(Loss::Terminated)
    }

    /// The listener that is notified of the loss of the lock, which is held.
    pub(crate) fn listen(&mut self, request: RequestId) -> Arc<Notify> {
        self.losses.entry(request.serial()).or_default().heard.get_or_insert_default().clone()
    }

    /// The manager has become empty: the memory of a crowd is given back.
    #[inline]
    pub(crate) fn all_gone(&mut self) {
        if self.cells.capacity() > KEPT || self.losses.capacity() > KEPT {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        if self.cells.capacity() > KEPT {
            self.cells = Vec::new();
        }
        if self.losses.capacity() > KEPT && self.losses.is_empty() {
            self.losses = HashMap::new();
        }
    }
}
