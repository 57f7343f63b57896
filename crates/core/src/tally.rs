//! What is counted of a lock table: the totals since the counts began, and how much there is.

use crate::{ClaimEnd, HolderKind, Instant, LockEnd, LossReason, OwnerEnd, Refusal};

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// A web lock, of an agent.
    Web,
    /// An offline lock, of an owner.
    Offline,
    /// A claim.
    Claim,
}

/// A closed set of words, each the place of a count.
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident: $($(#[doc = $meaning:literal])+ $kind:ident = $word:literal;)*) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $meaning])+ $kind,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Its word, in lower case.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }
        }
    };
}

words! {
    /// Why a holder has lost its lock.
    LossCause:
    /// The lock was stolen.
    Stolen = "stolen";
    /// The longest hold of a web lock was over.
    MaxHold = "max_hold";
    /// A younger lock that excludes it was reclaimed.
    Superseded = "superseded";
    /// The lease of the agent ran out.
    Lease = "lease";
    /// The holder did not come back for its lock after a restart.
    NotReclaimed = "not_reclaimed";
    /// The owner was silent for its TTL, or the time of the claim was over.
    Ttl = "ttl";
    /// The longest life of the owner was over.
    MaxLife = "max_life";
    /// An operator broke the hold.
    Broken = "broken";
}

words! {
    /// Why a command was refused, in a few groups.
    RefusalCause:
    /// Another lock, claim or request is in the way.
    Taken = "taken";
    /// The name is assigned.
    Assigned = "assigned";
    /// A bound of the table or of the memory is reached.
    Quota = "quota";
    /// The command breaks a rule.
    Invalid = "invalid";
    /// The table is closed.
    Closed = "closed";
    /// The table recovers.
    Recovering = "recovering";
    /// The agent, owner or claim has ended before.
    Ended = "ended";
    /// What was to be reclaimed is held no more.
    NotReclaimable = "not_reclaimable";
}

impl From<&LossReason> for LossCause {
    fn from(reason: &LossReason) -> Self {
        match reason {
            LossReason::Stolen => Self::Stolen,
            LossReason::Expired => Self::MaxHold,
            LossReason::Superseded => Self::Superseded,
            LossReason::Broken { .. } => Self::Broken,
        }
    }
}

impl LossCause {
    /// Of a claim that has ended; none if its claimant has ended it.
    pub(crate) fn of_claim(end: &ClaimEnd) -> Option<Self> {
        match end {
            ClaimEnd::Released => None,
            ClaimEnd::Expired => Some(Self::Ttl),
            ClaimEnd::Stolen => Some(Self::Stolen),
            ClaimEnd::Broken(_) => Some(Self::Broken),
        }
    }

    /// Of an offline lock that has ended alone; none if its owner has released it.
    pub(crate) fn of_lock(end: &LockEnd) -> Option<Self> {
        match end {
            LockEnd::Stolen => Some(Self::Stolen),
            LockEnd::Broken(_) => Some(Self::Broken),
            _ => None,
        }
    }

    /// Of the locks of an owner that has ended; none if the owner was ended by a command.
    pub(crate) fn of_owner(end: OwnerEnd) -> Option<Self> {
        match end {
            OwnerEnd::Ended => None,
            OwnerEnd::Expired => Some(Self::Ttl),
            OwnerEnd::Overdue => Some(Self::MaxLife),
        }
    }
}

impl Discipline {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Web, Self::Offline, Self::Claim];

    /// Its word, in lower case.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Offline => "offline",
            Self::Claim => "claim",
        }
    }
}

impl From<HolderKind> for Discipline {
    fn from(kind: HolderKind) -> Self {
        match kind {
            HolderKind::Web => Self::Web,
            HolderKind::Offline(_) => Self::Offline,
            HolderKind::Claim => Self::Claim,
        }
    }
}

impl From<&Refusal> for RefusalCause {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Unavailable { .. }
            | Refusal::Conflict(_)
            | Refusal::Claimed { .. }
            | Refusal::Busy { .. } => Self::Taken,
            Refusal::AlreadyAssigned(_) => Self::Assigned,
            Refusal::TooManyRequests { .. }
            | Refusal::TooManyEntries { .. }
            | Refusal::TooManyNames { .. }
            | Refusal::TooManyAgents { .. }
            | Refusal::TooManyLocks { .. }
            | Refusal::TooManyOwners { .. }
            | Refusal::TooManyAssignments { .. }
            | Refusal::BudgetExceeded { .. } => Self::Quota,
            Refusal::NameTooLong { .. }
            | Refusal::MetadataTooLong { .. }
            | Refusal::LabelTooLong { .. }
            | Refusal::TtlOutOfBounds { .. }
            | Refusal::TooManyLocksAtOnce { .. } => Self::Invalid,
            Refusal::Closed => Self::Closed,
            Refusal::Recovering { .. } => Self::Recovering,
            Refusal::UnknownAgent
            | Refusal::UnknownOwner
            | Refusal::ClaimExpired
            | Refusal::ClaimLost { .. } => Self::Ended,
            Refusal::NotRecovering | Refusal::Superseded | Refusal::UnknownToken => Self::NotReclaimable,
        }
    }
}

/// How many values lay in each of a few ranges, and their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The highest value of each range but the last, which has no end.
    bounds: &'static [u64],
    counts: [u64; RANGES],
    sum: u64,
}

/// The most ranges of a histogram.
const RANGES: usize = 16;

impl Histogram {
    /// Without values. `bounds`: the highest value of each range but the last, at most 15 of them, which
    /// grow.
    ///
    /// # Panics
    ///
    /// If there are more bounds.
    pub const fn new(bounds: &'static [u64]) -> Self {
        assert!(bounds.len() < RANGES, "a histogram has at most 16 ranges");
        Self { bounds, counts: [0; RANGES], sum: 0 }
    }

    /// One value more.
    pub fn add(&mut self, value: u64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// All values of another one with the same bounds.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.bounds, other.bounds, "values are counted in the same ranges");
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Each range: its highest value, none for the last one, and how many values lie in it.
    pub fn ranges(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let highest = self.bounds.iter().copied().map(Some).chain([None]);
        highest.zip(self.counts)
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// The ranges of waits and holds, in milliseconds. A time is the difference of two ticks.
const BOUNDS_MS: &[u64] =
    &[0, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];

/// What has happened in a lock table since its counts began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Locks and claims that were asked for, by [`Discipline`]; a command for several names counts for each.
    pub requested: [u64; Discipline::ALL.len()],
    /// Locks and claims that were granted.
    pub granted: [u64; Discipline::ALL.len()],
    /// Commands that were refused, also such as renew or release, by [`RefusalCause`].
    pub refused: [[u64; RefusalCause::ALL.len()]; Discipline::ALL.len()],
    /// Locks and claims that their holders have lost, by [`LossCause`].
    pub lost: [[u64; LossCause::ALL.len()]; Discipline::ALL.len()],
    /// Web locks that their holders have reclaimed.
    pub reclaimed: u64,
    /// From the request of a web lock to its grant, in milliseconds.
    pub waits_ms: Histogram,
    /// From the grant of a lock or claim, or its restart, reclaim or upgrade, to its end, in milliseconds.
    pub holds_ms: [Histogram; Discipline::ALL.len()],
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            requested: [0; 3],
            granted: [0; 3],
            refused: [[0; RefusalCause::ALL.len()]; 3],
            lost: [[0; LossCause::ALL.len()]; 3],
            reclaimed: 0,
            waits_ms: Histogram::new(BOUNDS_MS),
            holds_ms: [Histogram::new(BOUNDS_MS); 3],
        }
    }
}

impl Totals {
    /// Adds what has happened in another table.
    pub fn merge(&mut self, other: &Self) {
        let add = |counts: &mut [u64], more: &[u64]| {
            counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        };
        add(&mut self.requested, &other.requested);
        add(&mut self.granted, &other.granted);
        add(self.refused.as_flattened_mut(), other.refused.as_flattened());
        add(self.lost.as_flattened_mut(), other.lost.as_flattened());
        self.reclaimed += other.reclaimed;
        self.waits_ms.merge(&other.waits_ms);
        self.holds_ms.iter_mut().zip(&other.holds_ms).for_each(|(holds, more)| holds.merge(more));
    }
}

/// How much there is in a lock table at the moment. All of it is known without a walk over the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// How many locks and claims are held, by [`Discipline`]; without void ones.
    pub held: [usize; Discipline::ALL.len()],
    /// How many requests wait.
    pub waiting: usize,
    /// Since when the oldest of them waits, to a second: not before that. None if none waits, or nothing is
    /// counted.
    pub waits_since: Option<Instant>,
    /// How many agents, owners and claims there are: each may have a lease or a TTL that runs.
    pub parties: [usize; Discipline::ALL.len()],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_the_range_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::new(&[0, 10]);
        [0, 1, 10, 11].into_iter().for_each(|value| histogram.add(value));
        assert_eq!(
            histogram.ranges().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
            [(Some(0), 1), (Some(10), 2), (None, 1)]
        );
        assert_eq!((histogram.count(), histogram.sum()), (4, 22));
    }
}
