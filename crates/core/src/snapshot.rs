//! All that is held and pending, as data.

use crate::{FencingToken, Instant, Mode, Name, NameBuf, OwnerId, Party, SecretSeed};

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
    /// Whose it is.
    pub party: Party,
    /// The client id of the agent, the label of the owner, or the claimant.
    pub label: String,
    /// Held or pending.
    pub state: LockState,
    /// The instant of the grant, of the request while pending.
    pub since: Instant,
    /// If it is held, when it ends, as in [`Holder::expires`](crate::Holder::expires).
    pub expires: Option<Instant>,
    /// What the requester said of it.
    pub metadata: Option<String>,
}

/// Where a request stands.
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

/// A current claim. Never shown as it is: the seed is as good as the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimView<'a> {
    /// Its fencing token.
    pub token: FencingToken,
    /// Who claims.
    pub claimant: &'a str,
    /// How long it lasts unless it is renewed, in milliseconds.
    pub ttl_ms: u64,
    /// The instant at which it began.
    pub since: Instant,
    /// When it ends unless it is renewed.
    pub expires: Instant,
    /// What its secret is derived from.
    pub seed: SecretSeed,
    /// What the claimant said of it.
    pub metadata: Option<&'a str>,
}

/// An owner that lives. Never shown as it is: the seed is as good as the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerView<'a> {
    /// Its public number.
    pub owner: OwnerId,
    /// What it is called.
    pub label: &'a str,
    /// What it said of itself.
    pub metadata: Option<&'a str>,
    /// How long it lives without any activity, in milliseconds.
    pub ttl_ms: u64,
    /// The instant at which it began.
    pub since: Instant,
    /// When it ends unless more is heard of it.
    pub expires: Instant,
    /// When it ends at the latest.
    pub ends: Option<Instant>,
    /// What its secret is derived from.
    pub seed: SecretSeed,
    /// How many locks it has.
    pub locks: u32,
}

/// An assignment that stands. Never shown as it is: the seed is as good as the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignmentView<'a> {
    /// The resource name.
    pub name: &'a NameBuf,
    /// To whom it belongs.
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
    /// How it is held.
    pub mode: Mode,
    /// The token of its grant.
    pub token: FencingToken,
}
