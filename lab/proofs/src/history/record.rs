//! The events of a history, as docs/histories.md describes them: one JSON object per line.

use serde::Serialize;

/// An event at a client or of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When: `CLOCK_MONOTONIC` in nanoseconds, which all processes of one machine share.
    pub at: u64,
    /// The event itself.
    #[serde(flatten)]
    pub what: What,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// A client asks. Written before the first byte is sent.
    Invoke {
        client: String,
        /// Numbers the client's operations; never used twice.
        op: u64,
        bucket: String,
        #[serde(flatten)]
        call: Invocation,
    },
    /// A client is answered, or gives up. Written after the last byte was read.
    Answer {
        client: String,
        op: u64,
        #[serde(flatten)]
        answer: Completion,
    },
    /// A client gets a notice, or finds by its own deadline, that the web lock of its request `op` is held no
    /// more.
    Lost {
        client: String,
        op: u64,
        /// When its own deadline passed, if that is how it knows.
        #[serde(skip_serializing_if = "Option::is_none")]
        deadline: Option<u64>,
    },
    /// A client's process ends by itself.
    ClientEnded { client: String },
    /// The harness is about to kill a client's process.
    ClientKilled { client: String },
    /// The server answers its first health check.
    ServerStarted { epoch: String },
    /// The server's process is dead, and was waited for.
    ServerKilled,
    /// A backup was put in the place of the server's database; the server goes on above this token.
    Restored { above: u64 },
    /// The database failed over: a standby was promoted at this instant that lacks what was acknowledged
    /// after `from`. The former primary takes nothing any more by then, and after `until` no server speaks of
    /// its state. The servers go on above this token.
    FailedOver { from: u64, until: u64, above: u64 },
    /// The clocks of a process are wrong from now on: the wall clock is ahead so far, or behind if that is
    /// negative, and those that never go back have leapt so far in all.
    ClocksShifted { host: String, wall_ms: i64, leap_ms: u64 },
    /// The whole content of a bucket as the server reports it, read between `began` and the event itself
    /// while no other client sends a request.
    Readout { bucket: String, began: u64, found: Vec<Found> },
}

/// The request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Invocation {
    /// A web lock.
    Request {
        name: String,
        mode: Mode,
        #[serde(skip_serializing_if = "is_false")]
        steal: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_hold_ms: Option<u64>,
    },
    /// The end of the web lock that the same client's request `of` was granted.
    Release { of: u64 },
    /// The fence is passed at the guarded resource with the token that the same client's request `of` was
    /// granted.
    Pass { of: u64 },
    /// A new owner of offline locks.
    OpenOwner {
        ttl_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_ms: Option<u64>,
    },
    /// A heartbeat of an owner.
    Touch { owner: String },
    /// The end of an owner and of its locks.
    EndOwner { owner: String },
    /// An offline lock. Several at once are one such operation each, with the same instants.
    Lock { owner: String, name: String, mode: Mode },
    /// The end of what the owner holds of a name.
    Unlock { owner: String, name: String },
    /// The end of every lock of an owner.
    UnlockAll { owner: String },
    /// A claim.
    Claim { name: String, claimant: String, ttl_ms: u64 },
    /// More time for a claim.
    Renew { name: String, claim: String },
    /// The end of a claim.
    ReleaseClaim { name: String, claim: String },
    /// A claim is to become an assignment.
    Finalize { name: String, claim: String },
    /// The end of an assignment.
    Unassign { name: String },
    /// An operator ends the hold with this token.
    Break { name: String, token: u64 },
    /// A look at the server's state of this name.
    Look { name: String },
}

/// The end of an operation, as far as the client knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Completion {
    /// The operation was executed.
    Ok {
        /// Whether the server promised that this survives it.
        durable: bool,
        #[serde(flatten)]
        gain: Gain,
    },
    /// The operation was not executed, and never will be.
    Refused {
        reason: Reason,
        /// With `alreadyAssigned`: the token of the assignment that stands in the way.
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<u64>,
        /// With `alreadyAssigned`: the claimant.
        #[serde(skip_serializing_if = "Option::is_none")]
        claimant: Option<String>,
    },
    /// The connection went, or the client gave up: it may have been done, or not.
    Unknown,
}

/// The data of a successful answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gain {
    /// The fencing token: of a request, a lock, a claim, and of the claim that was made final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The lock or claim was there already, and so was its token.
    #[serde(skip_serializing_if = "is_false")]
    pub again: bool,
    /// The id of the new owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The id of the claim: a hash of its secret, never the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The claimant to whom the name was assigned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimant: Option<String>,
    /// Whether there was something to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<bool>,
    /// The answer to a look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<Found>>,
}

/// A thing that the server shows under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    pub name: String,
    #[serde(flatten)]
    pub thing: Thing,
    pub token: u64,
}

/// The things that can be found under a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Thing {
    /// A web lock.
    Web { mode: Mode },
    /// An offline lock.
    Offline { owner: String, mode: Mode },
    /// A claim.
    Claim { claimant: String },
    /// An assignment.
    Assignment { claimant: String },
}

/// Whether others may hold, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    Exclusive,
    Shared,
}

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// The name is held or waited for.
    Busy,
    /// Another claimant has the claim.
    Claimed,
    /// An assignment stands.
    AlreadyAssigned,
    /// No claim exists.
    ClaimExpired,
    /// Another claim is current.
    ClaimLost,
    /// The owner does not exist.
    OwnerGone,
    /// The bucket recovers.
    Recovering,
    /// The store does not take anything.
    Unavailable,
    /// The fence has seen a later token.
    Stale,
    /// Anything else that has no effect.
    Other,
}

impl Invocation {
    /// The name that it is about; that of a release or a pass is that of its request.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Request { name, .. }
            | Self::Lock { name, .. }
            | Self::Unlock { name, .. }
            | Self::Claim { name, .. }
            | Self::Renew { name, .. }
            | Self::ReleaseClaim { name, .. }
            | Self::Finalize { name, .. }
            | Self::Unassign { name }
            | Self::Break { name, .. }
            | Self::Look { name } => Some(name),
            Self::Release { .. }
            | Self::Pass { .. }
            | Self::OpenOwner { .. }
            | Self::Touch { .. }
            | Self::EndOwner { .. }
            | Self::UnlockAll { .. } => None,
        }
    }

    /// The owner that asks, if one does.
    pub fn owner(&self) -> Option<&str> {
        match self {
            Self::Touch { owner }
            | Self::EndOwner { owner }
            | Self::Lock { owner, .. }
            | Self::Unlock { owner, .. }
            | Self::UnlockAll { owner } => Some(owner),
            _ => None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
