//! What comes out: outcomes for the asker, effects for everybody else; facts in the past tense.

use crate::{
    AgentId, AssignmentRecord, Change, FencingToken, Instant, Mode, NameBuf, OwnerId, Refusal, RequestId,
    Snapshot,
};

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
    /// The owner lives.
    OwnerOpened(OwnerId),
    /// The owner has all the locks that it asked for, told in that order.
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
    /// Whether there was such an assignment; if so, it is no more.
    Unassigned {
        /// False if there was none.
        was: bool,
    },
    /// Whether the manager was recovering; if so, it does no more.
    RecoveryEnded {
        /// False if it had ended before.
        was: bool,
    },
}

/// An offline lock, as told to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnedLock {
    /// The token of its grant.
    pub token: FencingToken,
    /// How it is held, which may be stronger than what was asked for.
    pub mode: Mode,
    /// How it came about.
    pub how: Acquired,
}

/// How an owner came by a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acquired {
    /// It had it before, so that nothing happened.
    AlreadyHeld,
    /// It had no lock of that name.
    Fresh,
    /// It was the sole holder of a shared lock, which is exclusive now, with a new token.
    Upgraded,
}

/// A claim, as told to its claimant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimGrant {
    /// The fencing token of the claim, which is its number, too.
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

/// What happened to others than the asker, and what has to be kept: facts, in the order in which they
/// happened. A change comes before whatever rests on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Durable state changed.
    Change(Box<Change>),
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
        /// Its name; boxed, to keep effects small.
        name: Box<NameBuf>,
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
    /// A request that would not wait had to, as the manager was recovering, and found the name taken in the
    /// end.
    Unavailable {
        /// Whose it was.
        agent: AgentId,
        /// The request, which is over.
        request: RequestId,
        /// Whom it found in its way; only those who wait and came before it count.
        refusal: Box<Refusal>,
    },
    /// The recovery is over: from now on what is free is granted.
    Recovered,
}

/// Why a lock was taken from its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// Another request stole the name.
    Stolen,
    /// It was held for its `max_hold_ms`.
    Expired,
    /// It had been brought back from before a restart, and then a lock that excludes it, too, which is
    /// younger.
    Superseded,
}

/// Why the manager ended an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Its lease ran out.
    Expired,
}
