//! Identities, tokens and instants: numbers that cannot be mixed up.

use std::fmt;

/// An agent of one lock manager. Never reused: a stale id finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId {
    // First, so that ids compare by age.
    pub(crate) serial: u64,
    pub(crate) slot: u32,
}

/// A lock request of one lock manager, and after its grant the lock. Never reused: a stale id finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    // First, so that ids compare by age.
    pub(crate) serial: u64,
    pub(crate) slot: u32,
}

impl AgentId {
    /// A small number below the highest count of agents that were ever alive at once; reused after the
    /// agent's end.
    pub fn slot(self) -> usize {
        self.slot as usize
    }

    /// Grows with every agent of the manager, is never reused.
    pub fn serial(self) -> u64 {
        self.serial
    }
}

impl RequestId {
    /// A small number below the highest count of requests and locks that ever existed at once; reused after
    /// the end.
    pub fn slot(self) -> usize {
        self.slot as usize
    }

    /// Counts the requests of the manager: grows with every one, is never reused.
    pub fn serial(self) -> u64 {
        self.serial
    }
}

/// A fencing token: an integer below 2^53 that strictly grows over the grants of a bucket.
///
/// Present it to the guarded resource, which refuses a caller whose token is older than one that it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The first number that is no token.
    pub const LIMIT: u64 = 1 << 53;

    /// A token with this number.
    ///
    /// # Panics
    ///
    /// If `number` is 0 or not below 2^53.
    pub fn new(number: u64) -> Self {
        assert!(number != 0 && number < Self::LIMIT, "a fencing token lies in 1..2^53, not at {number}");
        Self(number)
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The public number of an owner. Drawn from the same count as the fencing tokens of its bucket, and never
/// given twice either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u64);

impl OwnerId {
    /// The owner with this number.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that the caller draws for an owner or a claim, or derives from a key by which these are found
/// again, stored with it and never shown: the secret that its holder presents is a keyed hash of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecretSeed(pub u64);

/// An instant of the lease clock, in milliseconds since an origin that the caller picks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant so many milliseconds after the origin.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the origin.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant `ms` milliseconds later; saturates.
    #[must_use]
    pub const fn plus_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// The time of a command, by a clock that moves in ticks.
///
/// The tick decides what has ended. Deadlines begin later, at the instant of the command, as far as it is
/// known: a tick may be old, and no lease, longest hold or TTL is cut short by that. An [`Instant`] is the
/// time of a command that comes with its tick.
///
/// ```
/// use lockhouse_core::{Instant, Now};
///
/// let now = Now::late(Instant::from_millis(1000), 80);
/// assert_eq!(now.tick(), Instant::from_millis(1000));
/// assert_eq!(now.deadline(500), Instant::from_millis(1580));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    tick: Instant,
    late_ms: u64,
}

impl Now {
    /// A command that comes so many milliseconds after its tick; the next tick is no earlier than that.
    pub const fn late(tick: Instant, late_ms: u64) -> Self {
        Self { tick, late_ms }
    }

    /// The latest tick.
    #[inline]
    pub const fn tick(self) -> Instant {
        self.tick
    }

    /// The end of something that begins now and lasts so many milliseconds; saturates.
    #[inline]
    #[must_use]
    pub const fn deadline(self, length_ms: u64) -> Instant {
        self.tick.plus_millis(self.late_ms).plus_millis(length_ms)
    }

    /// The same command at that tick, if the tick is later than its own.
    #[inline]
    #[must_use]
    pub fn not_before(self, tick: Instant) -> Self {
        if tick <= self.tick {
            return self;
        }
        let came = self.deadline(0);
        Self { tick, late_ms: came.0.saturating_sub(tick.0) }
    }
}

impl From<Instant> for Now {
    #[inline]
    fn from(tick: Instant) -> Self {
        Self::late(tick, 0)
    }
}

#[cfg(test)]
mod tests {
    use foldhash::fast::FixedState;

    use super::*;
    use crate::{Acquire, Command, LockManager, Mode, Name, NewAgent, NewRequest, Outcome};

    #[test]
    fn a_command_that_is_moved_to_a_later_tick_sets_no_earlier_deadline() {
        let at = Instant::from_millis;
        let now = Now::late(at(1000), 80);
        for (tick, moved) in [
            (900, now),
            (1000, now),
            (1050, Now::late(at(1050), 30)),
            (1080, at(1080).into()),
            (1200, at(1200).into()),
        ] {
            assert_eq!(now.not_before(at(tick)), moved, "{tick}");
        }
    }

    #[test]
    fn slots_are_distinct_while_their_owners_live_and_are_reused_afterwards() {
        let mut manager = LockManager::new(FixedState::default());
        let mut handle = |command| manager.handle(Instant::default(), command);
        let mut agents = Vec::new();
        let mut requests = Vec::new();
        for name in ["a", "b", "c"] {
            let Outcome::Joined(agent) = handle(Command::Join(NewAgent::new("any"))) else { panic!() };
            let name = Name::new(name).expect("a name");
            let ask = NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive));
            let Outcome::Granted(grant) = handle(Command::Request(ask)) else { panic!() };
            agents.push(agent);
            requests.push(grant.request);
        }
        assert_eq!(agents.iter().map(|agent| agent.slot()).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(requests.iter().map(|request| request.slot()).collect::<Vec<_>>(), [0, 1, 2]);
        handle(Command::End { agent: agents[2] });
        let Outcome::Joined(agent) = handle(Command::Join(NewAgent::new("any"))) else { panic!() };
        let ask = NewRequest::new(agent, Name::new("d").expect("a name"), Acquire::Wait(Mode::Exclusive));
        let Outcome::Granted(grant) = handle(Command::Request(ask)) else { panic!() };
        assert_eq!((agent.slot(), grant.request.slot()), (2, 2));
        assert_ne!((agent, grant.request), (agents[2], requests[2]), "an id is never given again");
    }
}
