//! Why an owner did not begin, why nothing was locked, and why a step did not succeed.

use std::time::Duration;

use lockhouse_core::{NameBuf, Refusal};

use crate::error::{Quota, StoreError};
use crate::snapshot::Holder;

/// Why an owner could not begin, or be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// There is no such owner, or it has ended.
    #[error("there is no such owner, or it has ended")]
    Unknown,
    /// The secret is not that of the owner.
    #[error("the secret is not that of the owner")]
    WrongSecret,
    /// An owner lives that was opened with the same idempotency key, but with another label, metadata, TTL or
    /// longest life.
    #[error("the idempotency key belongs to an owner with other terms")]
    KeyMismatch,
    /// The bucket grants no more.
    #[error("the bucket is closed")]
    Closed,
    /// A bound was exceeded.
    #[error(transparent)]
    Quota(Quota),
    /// The change cannot be made durable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for OwnerError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Closed => Self::Closed,
            refusal => Quota::of(&refusal).map_or(Self::Unknown, Self::Quota),
        }
    }
}

/// A name that could not be locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The resource name.
    pub name: NameBuf,
    /// The first holders, at most 8.
    pub holders: Vec<Holder>,
    /// How many requests wait for the name.
    pub queued: u32,
}

/// Why nothing was locked, or why a step did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// At least one of the names is held, or waited for, by others. Offline locks never wait: give up, and
    /// show the holder.
    #[error("{}", conflicts(.0))]
    Conflict(Vec<Conflict>),
    /// The owner has ended.
    #[error("the owner has ended")]
    OwnerEnded,
    /// Locks on which a step relies are not the owner's any more: they were stolen, or another step of the
    /// owner gave them back. Others may have changed what they guard.
    #[error("{}", lost(.0))]
    Lost(Vec<NameBuf>),
    /// The bucket recovers from a crash, and grants nothing until then.
    #[error("recovering, for {} ms at most", retry_after.as_millis())]
    Recovering {
        /// When to try again.
        retry_after: Duration,
    },
    /// The bucket grants no more.
    #[error("the bucket is closed")]
    Closed,
    /// A bound was exceeded.
    #[error(transparent)]
    Quota(Quota),
    /// The change cannot be made durable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn conflicts(conflicts: &[Conflict]) -> String {
    let Some(first) = conflicts.first() else { return "not available".to_owned() };
    let mut text = format!("{} is not available", first.name.as_name().display());
    match first.holders.first() {
        Some(holder) => text.push_str(&format!(": held by {:?}", holder.client_id)),
        None => text.push_str(&format!(": {} waiting", first.queued)),
    }
    if conflicts.len() > 1 {
        text.push_str(&format!(", and {} more", conflicts.len() - 1));
    }
    text
}

fn lost(names: &[NameBuf]) -> String {
    let Some(first) = names.first() else { return "a lock was lost".to_owned() };
    let mut text = format!("the lock of {} was lost", first.as_name().display());
    if names.len() > 1 {
        text.push_str(&format!(", and {} more", names.len() - 1));
    }
    text
}
