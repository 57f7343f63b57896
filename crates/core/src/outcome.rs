//! The output: outcomes for the caller, effects for all others; facts in the past tense.

use crate::{
    AgentId, AssignmentRecord, Change, FencingToken, Holder, Instant, Mode, NameBuf, OwnerId, Refusal,
    RequestId, Snapshot,
};

/// The answer to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The agent lives.
    Joined(AgentId),
    /// The lock is held.
    Granted(Grant),
    /// The request waits in its queue; an [`Effect::Granted`] will announce its grant.
    Queued(RequestId),
    /// The command changed nothing.
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
    /// The manager grants no more.
    Closed,
    /// The owner lives.
    OwnerOpened(OwnerId),
    /// The owner has all requested locks, listed in the order of the request.
    Locked(Vec<OwnedLock>),
    /// How many locks were given back.
    Unlocked {
        /// The count.
        count: usize,
    },
    /// How many locks were taken back, or are shared again.
    Undone {
        /// The count.
        count: usize,
    },
    /// The name is claimed.
    Claimed(ClaimGrant),
    /// The claim lasts longer.
    ClaimRenewed {
        /// When it ends now.
        expires: Instant,
    },
    /// The claim is over.
    ClaimReleased,
    /// The claim is final: this is the assignment.
    Finalized(Box<AssignmentRecord>),
    /// Whether there was such an assignment; if so, it has ended.
    Unassigned {
        /// False if there was none.
        was: bool,
    },
    /// The holder of the hold that was broken; none if there was no such hold.
    Broken(Option<Box<Holder>>),
    /// Whether the manager was recovering; if so, the recovery has ended.
    RecoveryEnded {
        /// False if it had ended before.
        was: bool,
    },
}

/// An offline lock, as answered to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnedLock {
    /// The token of its grant.
    pub token: FencingToken,
    /// The mode, which may be stronger than the requested one.
    pub mode: Mode,
    /// How the owner came by it.
    pub how: Acquired,
}

/// How an owner came by a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acquired {
    /// The owner already had the lock, so that nothing happened.
    AlreadyHeld,
    /// The owner had no lock of that name.
    Fresh,
    /// The owner was the sole holder of a shared lock, which is now exclusive, with a new token.
    Upgraded,
}

/// A claim, as answered to its claimant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimGrant {
    /// The fencing token of the claim, which is also its number.
    pub token: FencingToken,
    /// When it ends unless it is renewed.
    pub expires: Instant,
}

/// A granted lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The request that was granted; it names the lock from now on.
    pub request: RequestId,
    /// Higher than that of every earlier grant of this manager.
    pub token: FencingToken,
}

/// Effects on others than the caller, and changes that must be durable: facts, in the order in which they
/// happened. A change comes before the facts that depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Durable state changed.
    Change(Box<Change>),
    /// A pending request was granted.
    Granted {
        /// The agent of the request.
        agent: AgentId,
        /// The grant.
        grant: Grant,
    },
    /// A held lock was taken away; its holder may not know yet.
    Lost {
        /// The agent that held the lock.
        agent: AgentId,
        /// The lock.
        request: RequestId,
        /// Its name, and why; boxed, to keep effects small.
        loss: Box<LockLoss>,
    },
    /// An agent was ended by the manager, with all its requests and locks, which have no effects of their
    /// own.
    AgentEnded {
        /// The agent.
        agent: AgentId,
        /// Why.
        reason: EndReason,
    },
    /// An `IfAvailable` request had to wait because the manager was recovering, and found the name taken at
    /// the end of the recovery.
    Unavailable {
        /// The agent of the request.
        agent: AgentId,
        /// The request, which is over.
        request: RequestId,
        /// The holders and requests in its way; only requests that came before it and still wait count.
        refusal: Box<Refusal>,
    },
    /// The recovery is over: from now on free names are granted.
    Recovered,
}

/// The loss of a web lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockLoss {
    /// The resource name.
    pub name: NameBuf,
    /// Why.
    pub reason: LossReason,
}

/// Why a lock was taken from its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// Another request stole the name.
    Stolen,
    /// The lock was held for its `max_hold_ms`.
    Expired,
    /// The lock had been reclaimed after a restart; then a younger lock that excludes it was reclaimed, too.
    Superseded,
    /// An operator broke the lock.
    Broken {
        /// The operator's words.
        reason: Option<Box<str>>,
    },
}

/// Why the manager ended an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The lease of the agent ran out.
    Expired,
}
