//! Offline locks and owners, as data.

use std::time::{Duration, SystemTime};

use lockhouse_core::{Acquired, FencingToken, Mode, NameBuf};

/// An owner, as it sees itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerInfo {
    /// The label of the owner.
    pub label: String,
    /// The metadata of the owner.
    pub metadata: Option<String>,
    /// How long it lives without any activity.
    pub ttl: Duration,
    /// When it began.
    pub since: SystemTime,
    /// When it ends unless it is active before.
    pub expires_at: SystemTime,
    /// When it ends at the latest.
    pub ends_at: Option<SystemTime>,
}

/// An offline lock, as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflineLock {
    /// The resource name.
    pub name: NameBuf,
    /// The mode in which it is held, which may be stronger than the one that was asked for.
    pub mode: Mode,
    /// The fencing token, to be shown to the guarded resource.
    pub token: FencingToken,
    /// How the owner came by it.
    pub how: Acquired,
}

/// A lock that a step acquired, as it is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// The lock; of a name that the step took and then upgraded, the last one, as fresh.
    pub lock: OfflineLock,
    /// How often the step was answered since that the owner has it already.
    pub again: u32,
}

impl From<OfflineLock> for Acquisition {
    fn from(lock: OfflineLock) -> Self {
        Self { lock, again: 0 }
    }
}
