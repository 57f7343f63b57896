//! The writer that may write to a slot, and its progress.

use crate::{CommitBatch, CommitOutcome, StoreUnavailable, WriterId};

/// The writer of a slot and its progress. Both end with its epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterState {
    epoch: u64,
    writer: WriterId,
    last_seq: u64,
    /// The epoch ended with a clean stop.
    ended: bool,
}

impl WriterState {
    /// The state of a writer that has just taken the slot.
    pub(crate) fn begin(epoch: u64, writer: WriterId) -> Self {
        Self { epoch, writer, last_seq: 0, ended: false }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The outcome of a batch that need not or must not be stored now.
    pub(crate) fn settled_outcome(&self, batch: &CommitBatch) -> Option<CommitOutcome> {
        let (expected, found) = (self.last_seq + 1, batch.first_seq);
        let out_of_order = CommitOutcome::Refused(StoreUnavailable::OutOfOrder { expected, found });
        if (batch.epoch, batch.writer) != (self.epoch, self.writer) {
            Some(CommitOutcome::Fenced)
        } else if found == 0 {
            Some(out_of_order)
        } else if batch.last_seq() <= self.last_seq {
            Some(CommitOutcome::Committed)
        } else if self.ended {
            Some(CommitOutcome::Fenced)
        } else if found != expected {
            Some(out_of_order)
        } else {
            None
        }
    }

    /// The next batch is stored.
    pub(crate) fn advance(&mut self, batch: &CommitBatch) {
        self.last_seq = batch.last_seq();
    }

    /// No further batch is stored in this epoch.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }
}
