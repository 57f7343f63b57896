//! The requests of one bucket with an `Idempotency-Key`, under way or answered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use super::answer::{RequestDigest, StoredAnswer};

/// The answers of one bucket.
#[derive(Debug, Default)]
pub(super) struct BucketAnswers {
    pub(super) slots: HashMap<RequestDigest, Remembered>,
    /// The same requests, oldest first.
    pub(super) order: VecDeque<RequestDigest>,
    /// The bytes of the answers.
    pub(super) bytes: usize,
}

/// The amounts of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

/// One request and its answer.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) content: RequestDigest,
    pub(super) since: Instant,
    /// `None` while the request is under way.
    pub(super) answer: Option<Arc<StoredAnswer>>,
}

impl BucketAnswers {
    pub(super) fn oldest(&self) -> Option<&Remembered> {
        self.order.front().map(|id| &self.slots[id])
    }

    pub(super) fn load(&self) -> Load {
        Load { count: self.slots.len(), bytes: self.bytes }
    }

    /// Stores the answer of a request that is known.
    pub(super) fn put(&mut self, id: &RequestDigest, answer: StoredAnswer) {
        if let Some(slot) = self.slots.get_mut(id) {
            self.bytes += answer.bytes();
            // Two had the same key, if the first was under way for longer than its age.
            let displaced = slot.answer.replace(Arc::new(answer));
            self.bytes -= displaced.map_or(0, |answer| answer.bytes());
        }
    }

    pub(super) fn forget(&mut self, place: usize) {
        let forgotten = self.order.remove(place).and_then(|id| self.slots.remove(&id));
        self.bytes -= forgotten.and_then(|slot| slot.answer).map_or(0, |answer| answer.bytes());
    }
}
