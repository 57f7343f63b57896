//! Refusals: the reasons why nothing happened, as data.

use crate::{AgentId, AssignmentRecord, Instant, Mode, NameBuf, OwnerId};

/// The reason why nothing happened: refusals are data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An `IfAvailable` request that could not be granted at once.
    Unavailable {
        /// The first holders, at most [`Refusal::HOLDERS_SHOWN`].
        holders: Vec<Holder>,
        /// How many requests wait for the name.
        queued: u32,
    },
    /// The name is longer than [`Limits::name_units`](crate::Limits::name_units).
    NameTooLong {
        /// Its length.
        units: usize,
        /// The bound.
        limit: usize,
    },
    /// The metadata is longer than [`Limits::metadata_bytes`](crate::Limits::metadata_bytes).
    MetadataTooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// The agent has [`Limits::requests_per_agent`](crate::Limits::requests_per_agent) requests and locks
    /// already.
    TooManyRequests {
        /// The bound.
        limit: u32,
    },
    /// The manager has [`Limits::entries`](crate::Limits::entries) requests, locks and claims already.
    TooManyEntries {
        /// The bound.
        limit: u32,
    },
    /// The manager has [`Limits::names`](crate::Limits::names) names already.
    TooManyNames {
        /// The bound.
        limit: u32,
    },
    /// The manager has [`Limits::agents`](crate::Limits::agents) agents already.
    TooManyAgents {
        /// The bound.
        limit: u32,
    },
    /// The user of the manager has reached its memory budget. The manager, which knows of no other manager,
    /// never gives this refusal itself. The caller gives it, which has several managers and adds up their
    /// [`LockManager::bytes`](crate::LockManager::bytes).
    BudgetExceeded {
        /// The bound, in bytes.
        limit: usize,
    },
    /// The agent has ended, or is of another manager.
    UnknownAgent,
    /// The manager was closed ([`Command::Close`](crate::Command::Close)), and the request is not one that
    /// waits.
    Closed,
    /// The manager recovers from a restart: agents still reclaim the locks that they held.
    Recovering {
        /// The instant at which the recovery ends.
        until: Instant,
    },
    /// The manager does not recover, so that nothing can be reclaimed.
    NotRecovering,
    /// The reclaimed lock is older than another grant that excludes it, or was reclaimed before.
    Superseded,
    /// No such token was given before the restart.
    UnknownToken,
    /// The owner has ended, or is of another manager.
    UnknownOwner,
    /// Offline locks of which at least one could not be granted at once; none was.
    Conflict(Vec<Conflict>),
    /// A claim of a claimed name.
    Claimed {
        /// The claim that stands.
        holder: Box<Holder>,
    },
    /// A claim of a name that is held or waited for in another way.
    Busy {
        /// The first holders, at most [`Refusal::HOLDERS_SHOWN`].
        holders: Vec<Holder>,
        /// How many requests wait for the name.
        queued: u32,
    },
    /// A claim of a name that is assigned.
    AlreadyAssigned(Box<AssignmentRecord>),
    /// There is no current claim of the name, and no other one was made final.
    ClaimExpired,
    /// There is a current claim of the name, but another one; or another one was made final meanwhile.
    ClaimLost {
        /// The assignment that stands, where no claim does.
        assigned: Option<Box<AssignmentRecord>>,
    },
    /// The label of an owner or a claimant is longer than
    /// [`Limits::label_bytes`](crate::Limits::label_bytes).
    LabelTooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// The TTL is none of [`Limits::ttl_ms`](crate::Limits::ttl_ms).
    TtlOutOfBounds {
        /// The requested TTL, in milliseconds.
        ttl_ms: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// One command with more locks than [`Limits::locks_per_command`](crate::Limits::locks_per_command).
    TooManyLocksAtOnce {
        /// The bound.
        limit: usize,
    },
    /// The owner would have more than [`Limits::locks_per_owner`](crate::Limits::locks_per_owner) locks.
    TooManyLocks {
        /// The bound.
        limit: u32,
    },
    /// The manager has [`Limits::owners`](crate::Limits::owners) owners already.
    TooManyOwners {
        /// The bound.
        limit: u32,
    },
    /// The manager has [`Limits::assignments`](crate::Limits::assignments) claims and assignments already.
    TooManyAssignments {
        /// The bound.
        limit: u32,
    },
}

impl Refusal {
    /// The most holders of a name that a refusal lists.
    pub const HOLDERS_SHOWN: usize = 8;
}

/// A name that could not be locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The resource name.
    pub name: NameBuf,
    /// The first holders other than the requesting owner, at most [`Refusal::HOLDERS_SHOWN`].
    pub holders: Vec<Holder>,
    /// How many requests wait for the name.
    pub queued: u32,
}

/// A holder of a name, or a requester that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// An agent: a web lock, or a request for one.
    Agent(AgentId),
    /// An owner: an offline lock.
    Owner(OwnerId),
    /// A claimant: a claim.
    Claimant,
}

/// In which way a name is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HolderKind {
    /// By a web lock, or a request for one.
    #[default]
    Web,
    /// By an offline lock of this owner.
    Offline(OwnerId),
    /// By a claim.
    Claim,
}

impl From<Party> for HolderKind {
    fn from(party: Party) -> Self {
        match party {
            Party::Agent(_) => Self::Web,
            Party::Owner(owner) => Self::Offline(owner),
            Party::Claimant => Self::Claim,
        }
    }
}

impl HolderKind {
    /// The word for it: `web`, `offline` or `claim`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Offline(_) => "offline",
            Self::Claim => "claim",
        }
    }

    /// The public id of the owner, if it is an offline lock.
    pub fn owner(self) -> Option<String> {
        match self {
            Self::Offline(owner) => Some(owner.to_string()),
            Self::Web | Self::Claim => None,
        }
    }
}

/// A holder of a name, as shown to requesters that were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The party, which implies the way in which it holds.
    pub party: Party,
    /// The client id of the agent, the label of the owner, or the claimant.
    pub label: String,
    /// The mode in which it holds.
    pub mode: Mode,
    /// The instant of the grant.
    pub since: Instant,
    /// When the longest hold of a web lock ends, if it has one; when the claim ends, or the owner of an
    /// offline lock, unless it is renewed.
    pub expires: Option<Instant>,
    /// The metadata that the holder gave for the lock.
    pub metadata: Option<String>,
}
