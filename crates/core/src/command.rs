//! What goes in and what comes out: closed enums.

use crate::{AgentId, FencingToken, Instant, Name, RequestId, Snapshot};

/// How a lock may be shared. <https://w3c.github.io/web-locks/#concept-lock-mode>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Nobody else holds the name, in either mode.
    #[default]
    Exclusive,
    /// Any number of shared holders, no exclusive one.
    Shared,
}

/// How a request is made. A steal is always exclusive and never waits, so it cannot be combined with anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acquire {
    /// Wait in the queue of the name.
    Wait(Mode),
    /// Be granted at once or refused (`ifAvailable`).
    IfAvailable(Mode),
    /// Take the name from all its holders, ahead of all who wait (`steal`).
    Steal,
}

impl Acquire {
    /// The mode of the lock that a grant gives.
    pub fn mode(self) -> Mode {
        match self {
            Self::Wait(mode) | Self::IfAvailable(mode) => mode,
            Self::Steal => Mode::Exclusive,
        }
    }
}

/// An agent to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAgent<'a> {
    /// An opaque label, shown in snapshots, never parsed.
    pub client_id: &'a str,
    /// How long the agent lives without a [`Command::Renew`], in milliseconds; `None`: until it is ended.
    pub lease_ms: Option<u64>,
}

impl<'a> NewAgent<'a> {
    /// An agent without a lease.
    pub fn new(client_id: &'a str) -> Self {
        Self { client_id, lease_ms: None }
    }
}

/// A lock request to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRequest<'a> {
    /// Who asks.
    pub agent: AgentId,
    /// The resource name.
    pub name: Name<'a>,
    /// How.
    pub acquire: Acquire,
    /// Shown to others in snapshots and refusals.
    pub metadata: Option<&'a str>,
    /// How long the lock is held at most after its grant, in milliseconds.
    pub max_hold_ms: Option<u64>,
}

impl<'a> NewRequest<'a> {
    /// A request without metadata and without a longest hold.
    pub fn new(agent: AgentId, name: Name<'a>, acquire: Acquire) -> Self {
        Self { agent, name, acquire, metadata: None, max_hold_ms: None }
    }
}

/// What can be asked of a lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// An agent begins. Answer: `Joined` or `Refused`.
    Join(NewAgent<'a>),
    /// "Request a lock". Answer: `Granted`, `Queued` or `Refused`.
    Request(NewRequest<'a>),
    /// "Abort the request": a pending request leaves its queue. Answer: `Aborted`.
    Abort {
        /// The request.
        request: RequestId,
    },
    /// "Release the lock". Answer: `Released`.
    Release {
        /// The granted request.
        request: RequestId,
    },
    /// The agent's lease runs anew from now. Answer: `Renewed`.
    Renew {
        /// The agent.
        agent: AgentId,
    },
    /// "Terminate remaining locks and requests" of the agent, which ends. Answer: `Ended`.
    End {
        /// The agent.
        agent: AgentId,
    },
    /// "Snapshot the lock state". Answer: `Snapshot`.
    Snapshot,
    /// From now on nothing is granted any more: the house is about to close. Answer: `Closed`.
    Close,
}

/// What the asker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The agent lives.
    Joined(AgentId),
    /// The lock is held.
    Granted(Grant),
    /// The request waits in its queue; an [`Effect::Granted`] will tell of its grant.
    Queued(RequestId),
    /// Nothing happened.
    Refused(Refusal),
    /// Whether the request was pending; if so, it has left its queue.
    Aborted {
        /// False if it had been granted, or had ended, before.
        pending: bool,
    },
    /// Whether the lock was held; if so, it is released.
    Released {
        /// False if it was pending, or had ended, before.
        held: bool,
    },
    /// Whether the agent was alive; if so, its lease runs anew.
    Renewed {
        /// False if it had ended before.
        alive: bool,
    },
    /// Whether the agent was alive; if so, it has ended.
    Ended {
        /// False if it had ended before.
        alive: bool,
    },
    /// All that is held and pending.
    Snapshot(Snapshot),
    /// Nothing will be granted any more.
    Closed,
}

/// A granted lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The request that was granted; it names the lock from now on.
    pub request: RequestId,
    /// Higher than that of every earlier grant of this manager.
    pub token: FencingToken,
}

/// What happened to others than the asker, as facts, in the order in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A pending request was granted.
    Granted {
        /// Whose it is.
        agent: AgentId,
        /// The grant.
        grant: Grant,
    },
    /// A held lock was taken away; its holder may not know yet.
    Lost {
        /// Whose it was.
        agent: AgentId,
        /// The lock.
        request: RequestId,
        /// Why.
        reason: LossReason,
    },
    /// An agent was ended by the manager, with all its requests and locks, of which no other effect tells.
    AgentEnded {
        /// The agent.
        agent: AgentId,
        /// Why.
        reason: EndReason,
    },
}

/// Why a lock was taken from its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// Another request stole the name.
    Stolen,
    /// It was held for its `max_hold_ms`.
    Expired,
}

/// Why the manager ended an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Its lease ran out.
    Expired,
}

/// Why nothing happened: refusals are data.
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
    /// The agent has [`Limits::requests_per_agent`](crate::Limits::requests_per_agent) requests and locks already.
    TooManyRequests {
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
    /// The agent has ended, or is of another manager.
    UnknownAgent,
    /// The manager was closed ([`Command::Close`]), and the request is not one that waits.
    Closed,
}

impl Refusal {
    /// How many holders an `Unavailable` names at most.
    pub const HOLDERS_SHOWN: usize = 8;
}

/// Who holds a name, as told to those who were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The holder's label.
    pub client_id: String,
    /// How it holds.
    pub mode: Mode,
    /// The instant of the grant.
    pub since: Instant,
    /// When its longest hold ends, if it has one.
    pub expires: Option<Instant>,
    /// What it said of itself.
    pub metadata: Option<String>,
}
