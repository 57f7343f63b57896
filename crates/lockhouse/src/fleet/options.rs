//! How a process is a node of a fleet.

use std::time::Duration;

use crate::{ManualClock, Options};

/// How a process is a node of a fleet.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    pub(super) label: Box<str>,
    pub(super) address: Box<str>,
    pub(super) secret_mark: [u8; 32],
    pub(super) timing: Timing,
    pub(super) houses: Options,
    pub(super) clock: Option<ManualClock>,
}

/// The times of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long the counter of a node may stand still before it is declared dead.
    pub slot_lease: Duration,
    /// How long a node has to renew without a gap before it is given slots.
    pub join_delay: Duration,
    /// The pause between two polls of a node.
    pub poll: Duration,
    /// The longest pause of a node between two commits.
    pub idle_commit: Duration,
}

impl Timing {
    /// The times that follow from a slot lease: a join delay of the same length, four polls a second at
    /// least, and a commit each quarter of it, at most each second.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lockhouse::fleet::Timing;
    ///
    /// let timing = Timing::of(Duration::from_secs(3));
    /// assert_eq!(timing.poll, Duration::from_millis(250));
    /// assert_eq!(timing.idle_commit, Duration::from_millis(750));
    /// ```
    pub fn of(slot_lease: Duration) -> Self {
        Self {
            slot_lease,
            join_delay: slot_lease,
            poll: (slot_lease / 6).min(Duration::from_millis(250)),
            idle_commit: (slot_lease / 4).min(Duration::from_secs(1)),
        }
    }
}

impl NodeOptions {
    /// A node of that name, which no other node has, and which others reach at that address.
    pub fn new(label: &str, address: &str) -> Self {
        Self {
            label: label.into(),
            address: address.into(),
            secret_mark: [0; 32],
            timing: Timing::of(Duration::from_secs(3)),
            houses: Options::new(),
            clock: None,
        }
    }

    /// A hash of the secret that the nodes share. A node is refused if others have another one.
    #[must_use]
    pub fn secret_mark(mut self, mark: [u8; 32]) -> Self {
        self.secret_mark = mark;
        self
    }

    /// The times of the fleet. Every node should have the same.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// How the house of each slot is to be opened.
    #[must_use]
    pub fn houses(mut self, options: Options) -> Self {
        self.houses = options;
        self
    }

    /// A clock that is moved on by hand, by which the node counts its own rights.
    #[must_use]
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }
}
