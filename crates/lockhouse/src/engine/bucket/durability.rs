//! Whether a bucket is durable, and what its store knows of it.

use crate::loss::Loss;

/// Where the changes of a bucket go.
#[derive(Debug)]
pub(super) enum Durability {
    /// No durable state: there is no store.
    Volatile,
    /// Every change becomes durable in the store.
    Durable(Durable),
    /// The house was closed: nothing becomes durable any more.
    Closed,
    /// The house has lost its store, and with it every lock.
    Lost(Loss),
}

/// A durable bucket, as its store and the pipeline know it.
#[derive(Debug)]
pub(super) struct Durable {
    record: Record,
    /// How many commands the pipeline knows of that are to be sent; the bucket is in its queue if there are
    /// any.
    reported: usize,
}

/// The knowledge that the store may have of the bucket.
#[derive(Clone, Copy, Debug)]
enum Record {
    /// Nothing.
    Absent,
    /// Some change, and perhaps that the bucket needs recovery.
    Present(Announcement),
}

/// Whether the store knows that the bucket needs recovery after a crash. Only then may web locks be announced
/// to ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announcement {
    NotAnnounced,
    /// The announcement waits for the store in that group of changes.
    Announcing {
        group: u64,
    },
    Announced,
}

impl Durability {
    /// A bucket of a house with a store, which knows of the bucket if `is_known`.
    pub(super) fn durable(is_known: bool) -> Self {
        let record = if is_known { Record::Present(Announcement::NotAnnounced) } else { Record::Absent };
        Self::Durable(Durable { record, reported: 0 })
    }

    /// Why every lock is lost, if it is.
    #[inline]
    pub(super) fn loss(&self) -> Option<Loss> {
        match self {
            Self::Lost(why) => Some(why.clone()),
            Self::Volatile | Self::Durable(_) | Self::Closed => None,
        }
    }

    /// Whether nothing becomes durable any more that would have to.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Closed | Self::Lost(_))
    }

    /// Whether grants may be announced to ports without a look at the outbox.
    #[inline]
    pub(super) fn is_announced(&self) -> bool {
        match self {
            Self::Durable(durable) => matches!(durable.record, Record::Present(Announcement::Announced)),
            Self::Volatile | Self::Closed | Self::Lost(_) => true,
        }
    }

    /// Whether the store may know of the bucket.
    pub(super) fn is_known_to_store(&self) -> bool {
        matches!(self, Self::Durable(Durable { record: Record::Present(_), .. }))
    }
}

impl Durable {
    /// A change has to be durable, so that the store may know of the bucket from now on.
    pub(super) fn note_change(&mut self) {
        if let Record::Absent = self.record {
            self.record = Record::Present(Announcement::NotAnnounced);
        }
    }

    pub(super) fn announcement(&self) -> Announcement {
        match self.record {
            Record::Absent => Announcement::NotAnnounced,
            Record::Present(announcement) => announcement,
        }
    }

    /// The announcement has gone one step further.
    pub(super) fn announce(&mut self, step: Announcement) {
        debug_assert!(
            matches!(
                (self.announcement(), step),
                (Announcement::NotAnnounced, Announcement::Announcing { .. })
                    | (Announcement::Announcing { .. }, Announcement::Announced)
            ),
            "from {:?} to {step:?}",
            self.record
        );
        self.record = Record::Present(step);
    }

    /// So many commands are to be sent now. Returns whether they are the first that the pipeline learns of,
    /// and how many it does not know of.
    pub(super) fn report(&mut self, unsent: usize) -> (bool, usize) {
        debug_assert!(unsent >= self.reported, "only the pipeline takes commands");
        let known = std::mem::replace(&mut self.reported, unsent);
        (known == 0 && unsent > 0, unsent - known)
    }

    /// The pipeline has taken commands and left so many; how many it has taken of those that it knew of.
    pub(super) fn taken(&mut self, unsent: usize) -> usize {
        debug_assert!(unsent <= self.reported, "every command is reported before the mutex is free");
        std::mem::replace(&mut self.reported, unsent) - unsent
    }
}
