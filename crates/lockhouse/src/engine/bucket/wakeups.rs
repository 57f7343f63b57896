//! Wakeups for the time when the mutex of a bucket is free.

use std::sync::Arc;
use std::task::Waker;

use tokio::sync::{Notify, watch};

/// Wakers to be woken: a waker may come back for the mutex.
#[derive(Debug, Default)]
pub(super) struct Wakeups {
    /// The first waker of a future or a port: most commands wake no more than one task.
    first: Option<Waker>,
    /// The other wakers.
    others: Vec<Waker>,
    /// The guards that listen for a loss.
    pub(super) listeners: Vec<Arc<Notify>>,
}

impl Wakeups {
    #[inline]
    pub(super) fn add(&mut self, waker: Option<Waker>) {
        if self.first.is_none() {
            self.first = waker;
        } else {
            self.others.extend(waker);
        }
    }

    pub(super) fn add_all(&mut self, wakers: Vec<Waker>) {
        wakers.into_iter().for_each(|waker| self.add(Some(waker)));
    }

    /// Takes them out, if there are any.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Self> {
        let is_empty = self.first.is_none() && self.listeners.is_empty();
        if is_empty { None } else { Some(std::mem::take(self)) }
    }

    #[inline]
    pub(super) fn run(self) {
        self.first.into_iter().for_each(Waker::wake);
        self.others.into_iter().for_each(Waker::wake);
        self.listeners.iter().for_each(|listener| listener.notify_waiters());
    }
}

/// The watchers of a bucket, which are notified after each command that may have changed something.
#[derive(Debug, Default)]
pub(super) struct ChangeSignal {
    sender: Option<watch::Sender<()>>,
    /// Whether something may have changed since the watchers were notified.
    pub(super) is_due: bool,
}

impl ChangeSignal {
    pub(super) fn subscribe(&mut self) -> watch::Receiver<()> {
        self.sender.get_or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// The watchers to notify, if something may have changed.
    #[inline]
    pub(super) fn take(&mut self) -> Option<watch::Sender<()>> {
        if std::mem::take(&mut self.is_due) { self.sender.clone() } else { None }
    }
}
