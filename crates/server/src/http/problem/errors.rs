//! Problems of the library's errors.

use std::time::Duration;

use lockhouse::{BreakError, ClaimError, LockError, OwnerError, Quota, StoreError};

use super::answer::Problem;
use super::code::Code;
use crate::http::dto::{Assignment, Conflict, Holder, LostLock};
use crate::limits::QUOTA;

/// For how long a server that stops is away, about.
const RESTART: Duration = Duration::from_secs(1);

impl Problem {
    /// The owner has ended, or never was.
    pub(crate) fn unknown_owner() -> Box<Self> {
        Self::new(Code::UnknownOwner, "there is no such owner, or it has ended")
    }

    /// The key has stood for another request.
    pub(crate) fn idempotency_mismatch() -> Box<Self> {
        let rule = "a new key for a request with another query or body";
        Self::field(Code::IdempotencyMismatch, "Idempotency-Key", rule)
    }
}

/// A bucket that moves from one node to another.
const MOVING: Duration = Duration::from_millis(250);

impl Problem {
    /// The bucket is between two nodes, or its node cannot be reached.
    pub(crate) fn moving() -> Box<Self> {
        Self::new(Code::Moving, "the bucket moves to another server of the fleet").retry_after(MOVING)
    }

    /// The call was handed on, or must not be answered, so that its answer is lost.
    pub(crate) fn answer_lost(why: &str, is_repeatable: bool) -> Box<Self> {
        let problem = Self::new(Code::OutcomeUnknown, format!("it is unknown whether it happened: {why}"));
        if is_repeatable { problem.retry_with_key(RESTART) } else { problem }
    }
}

fn closing() -> Box<Problem> {
    Problem::new(Code::Closing, "the server stops and grants nothing any more").retry_after(RESTART)
}

fn recovering(retry_after: Duration) -> Box<Problem> {
    let why = "the bucket recovers from a restart, and grants nothing meanwhile";
    Problem::new(Code::Recovering, why).retry_after(retry_after)
}

fn of_quota(quota: &Quota) -> Box<Problem> {
    Problem::bound(Code::QuotaExceeded, quota).retry_after(QUOTA)
}

impl From<StoreError> for Box<Problem> {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { why, retry_after } => {
                Problem::new(Code::Unavailable, why).retry_after(retry_after)
            }
            StoreError::Closed => closing(),
            StoreError::OutcomeUnknown { why } => {
                Problem::new(Code::OutcomeUnknown, format!("it is unknown whether it happened: {why}"))
                    .retry_with_key(RESTART)
            }
            // Nothing has happened.
            error => Problem::new(Code::Unavailable, error.to_string()).retry_after(RESTART),
        }
    }
}

impl From<BreakError> for Box<Problem> {
    fn from(error: BreakError) -> Self {
        match error {
            BreakError::Quota(quota) => of_quota(&quota),
            BreakError::Store(error) => error.into(),
            error => Problem::new(Code::Internal, error.to_string()),
        }
    }
}

impl From<OwnerError> for Box<Problem> {
    fn from(error: OwnerError) -> Self {
        match error {
            OwnerError::Unknown => Problem::unknown_owner(),
            OwnerError::WrongSecret => Problem::unauthorized(),
            OwnerError::KeyMismatch => Problem::idempotency_mismatch(),
            OwnerError::Closed => closing(),
            OwnerError::Quota(quota) => of_quota(&quota),
            OwnerError::Store(error) => error.into(),
            error => Problem::new(Code::Internal, error.to_string()),
        }
    }
}

impl From<LockError> for Box<Problem> {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Conflict(conflicts) => {
                let message = LockError::Conflict(conflicts.clone()).to_string();
                Problem::new(Code::Locked, message)
                    .conflicts(conflicts.into_iter().map(Conflict::from).collect())
            }
            LockError::OwnerEnded => Problem::unknown_owner(),
            LockError::Lost(names) => {
                let message = LockError::Lost(names.clone()).to_string();
                Problem::new(Code::LockLost, message).lost(names.into_iter().map(LostLock::from).collect())
            }
            LockError::Recovering { retry_after } => recovering(retry_after),
            LockError::Closed => closing(),
            LockError::Quota(quota) => of_quota(&quota),
            LockError::Store(error) => error.into(),
            error => Problem::new(Code::Internal, error.to_string()),
        }
    }
}

impl From<ClaimError> for Box<Problem> {
    fn from(error: ClaimError) -> Self {
        let message = error.to_string();
        match error {
            ClaimError::Claimed { holder } => {
                let holder = Holder::from(*holder);
                let expires_at = holder.expires_at;
                Problem::new(Code::Claimed, message).expires_at(expires_at).holders(vec![holder], 0)
            }
            ClaimError::Busy { holders, queued } => Problem::new(Code::Busy, message)
                .holders(holders.into_iter().map(Holder::from).collect(), queued),
            ClaimError::AlreadyAssigned(assignment) => {
                Problem::new(Code::AlreadyAssigned, message).assignment(Assignment::from(*assignment))
            }
            ClaimError::ClaimExpired => Problem::new(Code::ClaimExpired, message),
            ClaimError::ClaimLost { assigned } => {
                let problem = Problem::new(Code::ClaimLost, message);
                match assigned {
                    None => problem,
                    Some(assignment) => problem.assignment(Assignment::from(*assignment)),
                }
            }
            ClaimError::Recovering { retry_after } => recovering(retry_after),
            ClaimError::Closed => closing(),
            ClaimError::Quota(quota) => of_quota(&quota),
            ClaimError::Store(error) => error.into(),
            error => Problem::new(Code::Internal, error.to_string()),
        }
    }
}
