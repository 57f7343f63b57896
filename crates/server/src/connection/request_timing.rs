//! The time at which the head of a request is overdue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::limits::{Limiter, Refused};
use crate::settings::LimitSettings;

/// The state of a connection between a request and its answer.
#[derive(Debug)]
pub(super) struct RequestTiming {
    began: Instant,
    /// The time of the last write, in nanoseconds since `began`.
    written: AtomicU64,
    /// The time at which the first bytes of a request have come since, alike; 0 if none have.
    asked: AtomicU64,
    /// Bytes wait to be written that the peer does not take.
    is_stalled: AtomicBool,
    is_answered: AtomicBool,
}

/// The guard of an answer: the connection waits for its server while the guard lives.
#[derive(Debug)]
pub(super) struct Answered(Arc<RequestTiming>);

impl RequestTiming {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            written: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            is_stalled: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
        })
    }

    /// A whole request has come.
    pub(super) fn answer(self: Arc<Self>) -> Answered {
        self.is_answered.store(true, Ordering::Relaxed);
        Answered(self)
    }

    /// Waits until the head of a request has been waited for longer than `header_timeout`, or after an answer
    /// any of it for longer than `idle_timeout`. Cancel safe.
    ///
    /// A request sets no timer: when a timer runs out, it is set anew for the rest of the time. A head that
    /// begins meanwhile may so have up to twice its time.
    pub(super) async fn overdue(&self, limiter: &Limiter) -> Refused {
        let mut since = self.began;
        loop {
            let LimitSettings { header_timeout, .. } = limiter.settings();
            sleep_until(since + header_timeout).await;
            let now = Instant::now();
            let is_waited_for = [&self.is_answered, &self.is_stalled];
            if is_waited_for.iter().any(|is| is.load(Ordering::Relaxed)) {
                since = now;
                continue;
            }
            let (end, refused) = self.end_of_patience(limiter);
            if now >= end {
                return refused;
            }
            since = now.min(end.checked_sub(header_timeout).unwrap_or(now));
        }
    }

    /// When the wait for the next head is over, and of which kind it is.
    fn end_of_patience(&self, limiter: &Limiter) -> (Instant, Refused) {
        let LimitSettings { header_timeout, idle_timeout, .. } = limiter.settings();
        let at = |nanos: u64| self.began + Duration::from_nanos(nanos);
        match (self.asked.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed)) {
            (0, 0) => (self.began + header_timeout, Refused::IdleTimeout),
            (0, written) => (at(written) + idle_timeout, Refused::IdleTimeout),
            (asked, _) => (at(asked) + header_timeout, Refused::HeaderTimeout),
        }
    }

    /// Bytes of a request have come.
    pub(super) fn note_asked(&self) {
        if self.asked.load(Ordering::Relaxed) == 0 {
            self.asked.store(self.nanos(), Ordering::Relaxed);
        }
    }

    /// Notes whether bytes wait to be written that the peer does not take.
    pub(super) fn note_stalled(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Ordering::Relaxed);
    }

    pub(super) fn note_written(&self) {
        self.note_taken();
        self.asked.store(0, Ordering::Relaxed);
    }

    pub(super) fn note_taken(&self) {
        self.written.store(self.nanos(), Ordering::Relaxed);
    }

    /// The time since the beginning, which is not 0. Enough for five centuries.
    fn nanos(&self) -> u64 {
        (self.began.elapsed().as_nanos() as u64).max(1)
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.is_answered.store(false, Ordering::Relaxed);
    }
}
