//! The time at which the head of a request is overdue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::limits::{Limiter, Refused};

/// The state of a connection between a request and its answer.
#[derive(Debug)]
pub(super) struct RequestTiming {
    began: Instant,
    /// The time of the last write, in nanoseconds since `began`.
    written: AtomicU64,
    /// Bytes of a request have come since.
    is_asked: AtomicBool,
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
            is_asked: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
        })
    }

    /// A whole request has come.
    pub(super) fn answer(self: Arc<Self>) -> Answered {
        self.is_answered.store(true, Ordering::Relaxed);
        Answered(self)
    }

    /// Waits until the head of a request has been waited for longer than `header_timeout`. Cancel safe.
    ///
    /// A request sets no timer: when the timer of the head before runs out, it is set anew for the rest of
    /// the time.
    pub(super) async fn overdue(&self, limiter: &Limiter) -> Refused {
        let mut since = self.began;
        loop {
            let limit = limiter.settings().header_timeout;
            sleep_until(since + limit).await;
            let now = Instant::now();
            let is_waited_for = [&self.is_answered, &self.is_stalled];
            if is_waited_for.iter().any(|is| is.load(Ordering::Relaxed)) {
                since = now;
                continue;
            }
            since = self.began + Duration::from_nanos(self.written.load(Ordering::Relaxed));
            if now >= since + limit {
                let is_half_asked = self.is_asked.load(Ordering::Relaxed);
                return if is_half_asked { Refused::HeaderTimeout } else { Refused::IdleTimeout };
            }
        }
    }

    /// Bytes of a request have come.
    pub(super) fn note_asked(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Notes whether bytes wait to be written that the peer does not take.
    pub(super) fn note_stalled(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Ordering::Relaxed);
    }

    pub(super) fn note_written(&self) {
        self.note_taken();
        self.is_asked.store(false, Ordering::Relaxed);
    }

    pub(super) fn note_taken(&self) {
        // Enough for five centuries.
        self.written.store(self.began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.is_answered.store(false, Ordering::Relaxed);
    }
}
