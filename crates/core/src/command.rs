//! The input: commands in the imperative, all of them borrowed.

use crate::{Acquired, AgentId, FencingToken, Name, OwnerId, RequestId, SecretSeed};

/// How a lock may be shared. <https://w3c.github.io/web-locks/#concept-lock-mode>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The name has no other holder, in either mode.
    #[default]
    Exclusive,
    /// Any number of shared holders, no exclusive one.
    Shared,
}

/// How a request is made. A steal is always exclusive and never waits, so it cannot be combined with anything
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acquire {
    /// Wait in the queue of the name.
    Wait(Mode),
    /// Be granted at once or refused (`ifAvailable`).
    IfAvailable(Mode),
    /// Take the name from all its holders, ahead of all waiting requests (`steal`).
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
    /// The agent that requests.
    pub agent: AgentId,
    /// The resource name.
    pub name: Name<'a>,
    /// The way of the acquisition.
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

/// A lock of an agent from before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewReclaim<'a> {
    /// The agent that held the lock.
    pub agent: AgentId,
    /// The resource name.
    pub name: Name<'a>,
    /// The mode of the lock.
    pub mode: Mode,
    /// The token of the lock, which it keeps.
    pub token: FencingToken,
    /// As in [`NewRequest`].
    pub metadata: Option<&'a str>,
    /// As in [`NewRequest`], counted from now.
    pub max_hold_ms: Option<u64>,
}

/// An owner to be: a session or business transaction.
/// <https://martinfowler.com/eaaCatalog/pessimisticOfflineLock.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOwner<'a> {
    /// The label, shown to requesters that are refused.
    pub label: &'a str,
    /// The metadata that the owner gives for itself.
    pub metadata: Option<&'a str>,
    /// How long it lives without any activity, in milliseconds.
    pub ttl_ms: u64,
    /// How long it lives at most, regardless of its activity, in milliseconds.
    pub max_ms: Option<u64>,
    /// The seed from which its secret is derived.
    pub seed: SecretSeed,
}

/// Offline locks to be, all of them or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLocks<'a> {
    /// The owner that requests.
    pub owner: OwnerId,
    /// The names and modes. If a name is listed twice, the stronger mode counts.
    pub locks: &'a [(Name<'a>, Mode)],
    /// Shown to others, with each of the locks that are new.
    pub metadata: Option<&'a str>,
}

/// A grant to a step of a business transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantToUndo<'a> {
    /// The name.
    pub name: Name<'a>,
    /// Its token; if the step took the name and then upgraded it, the last token.
    pub token: FencingToken,
    /// How the lock came about; `Fresh` if the step took the name and then upgraded it.
    pub how: Acquired,
    /// How many answers since then have reported to the step that the owner already has the lock. Above 254,
    /// and for locks from before a restart, the manager does not know whether other steps got such an answer,
    /// too.
    pub repeats: u32,
}

/// The locks that an owner gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock<'a> {
    /// The locks of these names, each only if it bears the token, where one is given.
    These(&'a [(Name<'a>, Option<FencingToken>)]),
    /// All, except those of these names.
    AllBut(&'a [Name<'a>]),
}

/// A claim to be: a reservation that ends by itself unless it is made final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewClaim<'a> {
    /// The resource name.
    pub name: Name<'a>,
    /// The claimant, shown to requesters that are refused.
    pub claimant: &'a str,
    /// How long the claim lasts unless it is renewed, in milliseconds.
    pub ttl_ms: u64,
    /// The seed from which its secret is derived.
    pub seed: SecretSeed,
    /// Shown to others.
    pub metadata: Option<&'a str>,
}

/// A hold that an operator means to break: a web lock, an offline lock or a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldToBreak<'a> {
    /// The resource name.
    pub name: Name<'a>,
    /// The token of the hold; no other hold of the name is meant.
    pub token: FencingToken,
    /// The operator, for those who look at the history later.
    pub operator: &'a str,
    /// The operator's words to the holder.
    pub reason: Option<&'a str>,
}

/// The commands of a lock manager.
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
    /// From now on nothing is granted any more, and no owner begins: the house is about to close. Answer:
    /// `Closed`.
    Close,
    /// An owner begins. Answer: `OwnerOpened` or `Refused`.
    OpenOwner(NewOwner<'a>),
    /// The owner is active: its TTL runs anew from now, as after each grant to it and each release by it.
    /// Answer: `Renewed`.
    Touch {
        /// The owner.
        owner: OwnerId,
    },
    /// The owner ends, and its locks with it. Answer: `Ended`.
    EndOwner {
        /// The owner.
        owner: OwnerId,
    },
    /// "Acquire lock", several at once: locks that the owner has stay, free names are granted, a shared lock
    /// with the owner as sole holder becomes exclusive; nothing waits. Answer: `Locked` in the order of the
    /// request, or `Refused` as a whole.
    Lock(NewLocks<'a>),
    /// "Release lock": takes effect only where name, owner and token match; otherwise nothing happens.
    /// Answer: `Unlocked`.
    Unlock {
        /// The owner of the locks.
        owner: OwnerId,
        /// The locks to give back.
        locks: Unlock<'a>,
    },
    /// A step of the business transaction failed. Its grants, as answered by
    /// [`Outcome::Locked`](crate::Outcome::Locked), are taken back: a fresh lock is released, an upgraded
    /// lock is shared again, under the token of the upgrade. A lock stays if another answer has since
    /// confirmed that the owner has it: another step of the owner may rely on that answer. Answer: `Undone`.
    Undo {
        /// The owner of the step.
        owner: OwnerId,
        /// The grants to the step.
        locks: &'a [GrantToUndo<'a>],
    },
    /// Claims a name. Answer: `Claimed` or `Refused`.
    Claim(NewClaim<'a>),
    /// The TTL of a claim runs anew from now. Answer: `ClaimRenewed`, or `Refused` as expired or lost.
    RenewClaim {
        /// The name.
        name: Name<'a>,
        /// The token of the claim; `None`: the caller has shown no secret of a claim.
        token: Option<FencingToken>,
    },
    /// Gives a claim back. Answer: `ClaimReleased`, or `Refused` as expired or lost.
    ReleaseClaim {
        /// The name.
        name: Name<'a>,
        /// As in `RenewClaim`.
        token: Option<FencingToken>,
    },
    /// Makes a claim final: checks it, assigns the name to the claimant and deletes the claim, all in one.
    /// Repeated with the token of the standing assignment, the command gets the same answer. Answer:
    /// `Finalized`, or `Refused` as expired or lost.
    Finalize {
        /// The name.
        name: Name<'a>,
        /// As in `RenewClaim`.
        token: Option<FencingToken>,
    },
    /// Takes an assignment back. Answer: `Unassigned`.
    Unassign {
        /// The name.
        name: Name<'a>,
        /// Only the assignment with this token, if one is given.
        token: Option<FencingToken>,
    },
    /// Ends a hold of any discipline for its holder: exactly that one, and never a later hold of the name.
    /// Answer: `Broken`, or `Refused` for operators and words of more bytes than
    /// [`Limits::label_bytes`](crate::Limits::label_bytes) and
    /// [`Limits::metadata_bytes`](crate::Limits::metadata_bytes).
    Break(HoldToBreak<'a>),
    /// An agent reclaims a lock from before a restart. Answer: `Granted` or `Refused`.
    Reclaim(NewReclaim<'a>),
    /// No further reclaim will come. Answer: `RecoveryEnded`.
    EndRecovery,
}
