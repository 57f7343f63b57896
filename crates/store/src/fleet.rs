//! A fleet: several processes over one store, each with slots of its own. Who lives is decided by the store
//! alone: each node adds to a counter of its own with all that it writes, and one whose counter stands still
//! for its slot lease is declared dead by another one, in one write.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::{CommitBatch, CommitOutcome, Fatal, HistoryFaults, Slot, Store, StoreFuture, StoreUnavailable};

/// A fleet, as a process has it that is no node of it.
pub trait Fleet: Send + Sync + fmt::Debug {
    /// How many slots there are. The number never changes.
    fn slots(&self) -> u16;

    /// All nodes and slots at one moment of the call.
    ///
    /// # Errors
    ///
    /// [`JoinError`]: the store cannot be read at the moment, or not any more.
    fn look(&self) -> StoreFuture<'_, Result<FleetRows, JoinError>>;

    /// Declares a node dead whose counter is still the one that was seen. False if it is not.
    ///
    /// # Errors
    ///
    /// [`JoinError`]. It may have come about nevertheless.
    fn bury(&self, dead: NodeId, seen: u64) -> StoreFuture<'_, Result<bool, JoinError>>;

    /// Joins as a node, whose life lasts until it leaves or is declared dead. Then the process may join
    /// again, as another one; what it still sends as the former one is not kept.
    ///
    /// # Errors
    ///
    /// [`JoinError`]. If the answer was lost the label may be in use, by a node that does not live: it has to
    /// be declared dead like any other.
    ///
    /// # Cancel safety
    ///
    /// As if the answer were lost.
    fn join<'a>(&'a self, node: &'a NewNode) -> StoreFuture<'a, Result<Arc<dyn FleetStore>, JoinError>>;
}

/// The store of a fleet, as one node has it during its life. Only free slots are taken
/// ([`take_slot`](Store::take_slot)), and every write renews.
pub trait FleetStore: Store {
    /// The number that the node has drawn.
    fn id(&self) -> NodeId;

    /// As [`commit`](Store::commit), of batches of any of the node's slots, or of none. Says also whether the
    /// node lives.
    ///
    /// # Errors
    ///
    /// As those of [`commit`](Store::commit).
    ///
    /// # Cancel safety
    ///
    /// As that of [`commit`](Store::commit).
    fn commit_and_renew(
        &self,
        batches: Vec<Arc<CommitBatch>>,
    ) -> StoreFuture<'_, Result<(Vec<CommitOutcome>, NodeRenewal), Fatal>>;

    /// As [`Fleet::look`].
    ///
    /// # Errors
    ///
    /// As those of [`Fleet::look`].
    fn look(&self) -> StoreFuture<'_, Result<FleetRows, JoinError>>;

    /// As [`Fleet::bury`]. False, too, if this node was declared dead itself.
    ///
    /// # Errors
    ///
    /// As those of [`Fleet::bury`].
    fn bury(&self, dead: NodeId, seen: u64) -> StoreFuture<'_, Result<bool, JoinError>>;

    /// Leaves the fleet: every slot that the node still has is free. The caller has to have stopped granting
    /// before, and must not go on after an error either.
    ///
    /// # Errors
    ///
    /// [`JoinError`]. It may have come about nevertheless, or may yet.
    fn leave(&self) -> StoreFuture<'_, Result<(), JoinError>>;

    /// What has gone wrong with the history in this life of the node.
    fn history_faults(&self) -> HistoryFaults {
        HistoryFaults::default()
    }

    /// Who has kept old versions of rows alive in the database for longest, and for how many transactions by
    /// the last look; none if that is not known.
    fn oldest_holder(&self) -> Option<(Box<str>, i64)> {
        None
    }
}

/// All rows of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetRows {
    /// The nodes, by their labels.
    pub nodes: Vec<NodeRow>,
    /// The slots, in order.
    pub slots: Vec<SlotRow>,
}

/// A random number that a node draws anew each time it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// A node to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Its name, which no other node that lives has.
    pub label: Box<str>,
    /// Where other nodes reach it.
    pub address: Box<str>,
    /// How long its counter may stand still before it is declared dead.
    pub slot_lease: Duration,
    /// A hash of the secret that the nodes share, by which another one is noticed.
    pub secret_mark: [u8; 32],
}

/// A node that has joined, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// The number that it has drawn.
    pub id: NodeId,
    /// Its name.
    pub label: Box<str>,
    /// Where other nodes reach it.
    pub address: Box<str>,
    /// How long its counter may stand still before it is declared dead.
    pub slot_lease: Duration,
    /// A hash of the secret that the nodes share.
    pub secret_mark: [u8; 32],
    /// Grows with all that it writes.
    pub counter: u64,
}

/// A slot, as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// The slot.
    pub slot: Slot,
    /// Its epoch.
    pub epoch: u64,
    /// The node that took it last, unless it has given it back. The slot is free if that node has no row.
    pub owner: Option<NodeId>,
    /// The slot lease of the node that took it last.
    pub slot_lease: Duration,
    /// No holder of a Web Lock of before may want to come back to it.
    pub clean: bool,
}

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRenewal {
    /// The node lives, and owns these slots, in order. One that it does not serve it has to take anew.
    Owns(Vec<Slot>),
    /// The node was declared dead: every slot is another's, or will be.
    Dead,
    /// It is unknown whether the renewal has come about, or it has not: why, in the words of the store.
    Unknown(Box<str>),
}

/// Why a node could not join.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JoinError {
    /// A node with that label has joined before. It has to stand still for its slot lease first, and to be
    /// declared dead.
    #[error("label is {:?}, which the node at {:?} has; give each node a label of its own", .0.label, .0.address)]
    LabelInUse(NodeRow),
    /// A field of the node is out of its range.
    #[error("{field} is {value}, but has to be {rule}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: Box<str>,
        /// Its range.
        rule: &'static str,
    },
    /// The store cannot be opened.
    #[error("{0}")]
    NotOpened(Box<str>),
    /// The store cannot be written at the moment.
    #[error(transparent)]
    Unavailable(#[from] StoreUnavailable),
    /// The store can no longer be trusted.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// How long the counter of a node has stood still, as far as answered polls can tell.
///
/// ```
/// # use std::time::Duration;
/// use lockhouse_store::Stillness;
///
/// let at = Duration::from_millis;
/// let mut stillness = Stillness::default();
/// for ms in [0, 250, 500] {
///     stillness.polled(at(ms), at(ms + 10), 7);
/// }
/// assert_eq!(stillness.lasts(), at(480));
/// // An outage of the store is no stillness of the node.
/// stillness.polled(at(60_000), at(60_010), 7);
/// assert_eq!(stillness.lasts(), at(980));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Stillness {
    /// When the last poll was answered, and its counter.
    last: Option<(Duration, u64)>,
    lasts: Duration,
}

/// The most that one answered poll adds, however long ago the one before was: meanwhile the node may have
/// tried to renew, as vainly as the poller.
const CREDIT: Duration = Duration::from_millis(500);

impl Stillness {
    /// A poll has found this counter, and was sent and answered at these instants of a clock that never goes
    /// back. The counter was read at some instant between them: what counts is the time from the answer of
    /// the poll before to the sending of this one.
    pub fn polled(&mut self, sent: Duration, answered: Duration, counter: u64) {
        self.lasts = match self.last {
            Some((last, known)) if known == counter => self.lasts + sent.saturating_sub(last).min(CREDIT),
            _ => Duration::ZERO,
        };
        self.last = Some((answered, counter));
    }

    /// How long it has stood still at least.
    pub fn lasts(&self) -> Duration {
        self.lasts
    }

    /// The counter that was seen last.
    pub fn counter(&self) -> Option<u64> {
        self.last.map(|(_, counter)| counter)
    }
}

#[cfg(feature = "postgres")]
impl NewNode {
    pub(crate) fn check(&self) -> Result<(), JoinError> {
        let wrong = |field, value: String, rule| Err(JoinError::Field { field, value: value.into(), rule });
        if self.label.is_empty() || self.label.len() > 256 {
            return wrong("label", format!("{:?}", self.label), "1 to 256 bytes");
        }
        if self.address.len() > 2048 {
            return wrong("address", format!("{} bytes", self.address.len()), "at most 2048 bytes");
        }
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(600));
        if self.slot_lease < least || self.slot_lease > most {
            return wrong("slot_lease", format!("{:?}", self.slot_lease), "from 100 ms to 10 min");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn only_answered_polls_add_and_each_at_most_half_a_second() {
        let mut stillness = Stillness::default();
        assert_eq!((stillness.lasts(), stillness.counter()), (at(0), None));
        for (ms, counter, lasts) in
            [(0, 1, 0), (100, 1, 100), (10_000, 1, 600), (10_250, 1, 850), (10_500, 2, 0), (10_600, 2, 100)]
        {
            stillness.polled(at(ms), at(ms), counter);
            assert_eq!((stillness.lasts(), stillness.counter()), (at(lasts), Some(counter)), "{ms}");
        }
    }

    #[test]
    fn a_poll_that_is_answered_late_adds_nothing_that_it_cannot_know() {
        let mut stillness = Stillness::default();
        stillness.polled(at(0), at(10), 6);
        // The node has renewed at 500, before this one was read.
        stillness.polled(at(20), at(510), 7);
        stillness.polled(at(520), at(530), 7);
        assert_eq!(stillness.lasts(), at(10));
        stillness.polled(at(600), at(1600), 7);
        stillness.polled(at(1500), at(1610), 7);
        assert_eq!(stillness.lasts(), at(80));
    }
}
