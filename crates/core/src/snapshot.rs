//! Snapshots: all held locks and pending requests, as data.

use crate::{FencingToken, Instant, Mode, Name, NameBuf, OwnerId, Party, RequestId, SecretSeed};

/// A consistent cut of a lock manager. <https://w3c.github.io/web-locks/#snapshot-the-lock-state>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Every pending request; those of one name in queue order.
    pub pending: Vec<SnapshotEntry>,
    /// Every held lock, in no promised order.
    pub held: Vec<SnapshotEntry>,
}

/// One request or lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// The resource name.
    pub name: NameBuf,
    /// Its mode.
    pub mode: Mode,
    /// The request of a web lock, the same while it is pending and held.
    pub request: Option<RequestId>,
    /// The party of the request or lock.
    pub party: Party,
    /// The client id of the agent, the label of the owner, or the claimant.
    pub label: String,
    /// Held or pending.
    pub state: LockState,
    /// The instant of the grant; of the request while it is pending.
    pub since: Instant,
    /// If it is held, when it ends, as in [`Holder::expires`](crate::Holder::expires).
    pub expires: Option<Instant>,
    /// The metadata that the requester gave for it.
    pub metadata: Option<String>,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockState {
    /// Granted, with this token.
    Held(FencingToken),
    /// In the queue of its name, at this place, counted from 1.
    Pending {
        /// The place.
        place: u32,
    },
}

/// A current claim. Never shown in this form: the seed is as good as the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimView<'a> {
    /// Its fencing token.
    pub token: FencingToken,
    /// The claimant.
    pub claimant: &'a str,
    /// How long it lasts unless it is renewed, in milliseconds.
    pub ttl_ms: u64,
    /// The instant at which it began.
    pub since: Instant,
    /// When it ends unless it is renewed.
    pub expires: Instant,
    /// The seed from which its secret is derived.
    pub seed: SecretSeed,
    /// The metadata that the claimant gave for the claim.
    pub metadata: Option<&'a str>,
}

/// An owner that lives. Never shown in this form: the seed is as good as the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerView<'a> {
    /// Its public number.
    pub owner: OwnerId,
    /// The label.
    pub label: &'a str,
    /// The metadata that the owner gave for itself.
    pub metadata: Option<&'a str>,
    /// How long it lives without any activity, in milliseconds.
    pub ttl_ms: u64,
    /// The instant at which it began.
    pub since: Instant,
    /// The instant at which it ends unless it is touched.
    pub expires: Instant,
    /// When it ends at the latest.
    pub ends: Option<Instant>,
    /// The seed from which its secret is derived.
    pub seed: SecretSeed,
    /// How many locks it has.
    pub locks: u32,
}

/// An assignment that stands. Never shown in this form: the seed is as good as the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignmentView<'a> {
    /// The resource name.
    pub name: &'a NameBuf,
    /// The claimant to whom the name belongs.
    pub claimant: &'a str,
    /// The fencing token of the claim.
    pub token: FencingToken,
    /// The instant at which it became final.
    pub since: Instant,
    /// The seed of the claim.
    pub seed: SecretSeed,
}

/// A lock that an agent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebLockView<'a> {
    /// The resource name.
    pub name: Name<'a>,
    /// The label of the agent.
    pub client_id: &'a str,
    /// The mode of the lock.
    pub mode: Mode,
    /// The token of its grant.
    pub token: FencingToken,
}
