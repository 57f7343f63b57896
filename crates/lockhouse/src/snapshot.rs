//! All that is held and pending, as reported to people and programs.

use std::time::SystemTime;

use lockhouse_core::{FencingToken, HolderKind, LockState, Mode, NameBuf, RequestId};

/// A consistent cut of a bucket, possibly out of date by the time it is read.
/// <https://w3c.github.io/web-locks/#dictdef-lockmanagersnapshot>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Every held lock, in no promised order.
    pub held: Vec<LockInfo>,
    /// Every pending request; those of one name in queue order.
    pub pending: Vec<LockInfo>,
}

/// One request or lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The resource name.
    pub name: NameBuf,
    /// Its mode.
    pub mode: Mode,
    /// A number of its request, if it is a web lock of this process's bucket: the same while it is pending
    /// and held, and above those of all requests before.
    pub request: Option<u64>,
    /// In which way it is held or waited for.
    pub kind: HolderKind,
    /// The label of its agent or owner, or the claimant.
    pub client_id: String,
    /// Held, with its token, or pending, with its place.
    pub state: LockState,
    /// The time of the grant, of the request while pending.
    pub since: SystemTime,
    /// When its longest hold ends, if it is held and has one.
    pub expires_at: Option<SystemTime>,
    /// The metadata of the request.
    pub metadata: Option<String>,
}

/// A holder of a name, as reported to those that were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// In which way.
    pub kind: HolderKind,
    /// The label of the agent or the owner, or the claimant.
    pub client_id: String,
    /// How it holds.
    pub mode: Mode,
    /// The time of the grant.
    pub since: SystemTime,
    /// When the longest hold of a web lock ends, if it has one; when the claim ends, or the owner of an
    /// offline lock, unless it is renewed or active before.
    pub expires_at: Option<SystemTime>,
    /// The metadata of the holder.
    pub metadata: Option<String>,
}

/// Turns an instant of the lease clock into calendar time.
pub(crate) type Wall<'a> = &'a dyn Fn(lockhouse_core::Instant) -> SystemTime;

impl Snapshot {
    pub(crate) fn from_core(snapshot: lockhouse_core::Snapshot, wall: Wall<'_>) -> Self {
        let entries = |list: Vec<lockhouse_core::SnapshotEntry>| {
            list.into_iter().map(|entry| LockInfo::new(entry, wall))
        };
        Self { held: entries(snapshot.held).collect(), pending: entries(snapshot.pending).collect() }
    }
}

impl LockInfo {
    pub(crate) fn new(entry: lockhouse_core::SnapshotEntry, wall: Wall<'_>) -> Self {
        Self {
            name: entry.name,
            mode: entry.mode,
            request: entry.request.map(RequestId::serial),
            kind: entry.party.into(),
            client_id: entry.label,
            state: entry.state,
            since: wall(entry.since),
            expires_at: entry.expires.map(wall),
            metadata: entry.metadata,
        }
    }

    /// The fencing token, once held.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        match self.state {
            LockState::Held(token) => Some(token),
            LockState::Pending { .. } => None,
        }
    }
}

impl Holder {
    pub(crate) fn new(holder: lockhouse_core::Holder, wall: Wall<'_>) -> Self {
        Self {
            kind: holder.party.into(),
            client_id: holder.label,
            mode: holder.mode,
            since: wall(holder.since),
            expires_at: holder.expires.map(wall),
            metadata: holder.metadata,
        }
    }
}
