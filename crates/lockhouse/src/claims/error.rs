//! Why a claim was not made, renewed, released or made final.

use std::time::Duration;

use crate::claims::info::Assignment;
use crate::error::{NotSupported, Quota, StoreError, Unavailable};
use crate::snapshot::Holder;

/// Why a claim was not made, renewed, released or made final.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Another claimant has a claim on it.
    #[error("claimed by {:?}", holder.client_id)]
    Claimed {
        /// The claimant, and until when; never the token.
        holder: Box<Holder>,
    },
    /// The resource is held, or waited for, in another way.
    #[error("busy: {}", Unavailable::text(holders, *queued))]
    Busy {
        /// The first holders, at most 8.
        holders: Vec<Holder>,
        /// How many requests wait for the name.
        queued: u32,
    },
    /// The resource is assigned already.
    #[error("already assigned to {:?}", .0.claimant)]
    AlreadyAssigned(Box<Assignment>),
    /// There is no current claim, and the resource is not assigned by another: the claim has ended, was
    /// released, or was made final.
    #[error("the claim does not stand any more: it has expired, was released or was made final")]
    ClaimExpired,
    /// Another claim stands, with another token, or the resource is assigned by one.
    #[error("the claim is lost: {}", to_whom(assigned.as_deref()))]
    ClaimLost {
        /// The assignment, where the other claim was made final.
        assigned: Option<Box<Assignment>>,
    },
    /// The bucket recovers from a crash, and grants nothing until then.
    #[error("recovering, for {} ms at most", retry_after.as_millis())]
    Recovering {
        /// When to try again.
        retry_after: Duration,
    },
    /// The bucket grants no more.
    #[error("the bucket is closed")]
    Closed,
    /// The name is none.
    #[error("not supported: {0}")]
    NotSupported(NotSupported),
    /// A bound was exceeded.
    #[error(transparent)]
    Quota(Quota),
    /// The change cannot be made durable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn to_whom(assigned: Option<&Assignment>) -> String {
    match assigned {
        None => "the one that stands has another token".to_owned(),
        Some(assignment) => format!("assigned to {:?}", assignment.claimant),
    }
}
