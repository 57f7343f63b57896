//! Whose turn it is to write to a slot, and what has come so far.

use crate::{Fate, Section, Unavailable, WriterId};

/// The writer of a slot and how far it has come. Both end with its epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    epoch: u64,
    writer: WriterId,
    last_seq: u64,
    /// The epoch ended with a clean stop.
    ended: bool,
}

impl Turn {
    /// That of whoever has just taken the slot.
    pub(crate) fn begin(epoch: u64, writer: WriterId) -> Self {
        Self { epoch, writer, last_seq: 0, ended: false }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The fate of a section that need not or must not be kept now.
    pub(crate) fn judge(&self, section: &Section) -> Option<Fate> {
        let (expected, found) = (self.last_seq + 1, section.first_seq);
        let out_of_order = Fate::Refused(Unavailable::OutOfOrder { expected, found });
        if (section.epoch, section.writer) != (self.epoch, self.writer) {
            Some(Fate::Fenced)
        } else if found == 0 {
            Some(out_of_order)
        } else if section.last_seq() <= self.last_seq {
            Some(Fate::Committed)
        } else if self.ended {
            Some(Fate::Fenced)
        } else if found != expected {
            Some(out_of_order)
        } else {
            None
        }
    }

    /// The section that was judged to be next is kept.
    pub(crate) fn has_kept(&mut self, section: &Section) {
        self.last_seq = section.last_seq();
    }

    /// Nothing more is kept in this epoch.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }
}
