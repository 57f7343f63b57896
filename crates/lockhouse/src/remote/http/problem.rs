//! The problems of a server that did not carry out a request, as the errors of the library.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::client::Answer;
use super::views::{self, AssignmentBody, Conflict, Holder, LostLock, Unusable};
use crate::claims::error::ClaimError;
use crate::error::{Quota, StoreError};
use crate::owners::error::{LockError, OwnerError};

/// A problem (RFC 9457), or a substitute if the answer was none.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Problem {
    pub(crate) code: String,
    detail: String,
    field: Option<String>,
    value: Option<String>,
    rule: Option<String>,
    holders: Vec<Holder>,
    queued: u32,
    conflicts: Vec<Conflict>,
    lost: Vec<LostLock>,
    assignment: Option<AssignmentBody>,
    retry_after_ms: Option<u64>,
    /// The call changes nothing, whatever became of it.
    #[serde(skip)]
    pub(super) is_of_a_question: bool,
}

impl Problem {
    pub(super) fn of(answer: &Answer) -> Box<Self> {
        match views::read::<Box<Self>>(&answer.body) {
            Ok(problem) if !problem.code.is_empty() => problem,
            Ok(_) => Self::unusable(answer, &Unusable(None)),
            Err(error) => Self::unusable(answer, &error),
        }
    }

    /// An answer that no lockhouse server gives.
    pub(super) fn unusable(answer: &Answer, Unusable(why): &Unusable) -> Box<Self> {
        let mut detail = format!("status {}, but not as a lockhouse server answers", answer.status);
        if let Some(why) = why {
            detail = format!("{detail}: {why}");
        }
        Box::new(Self { detail, ..Self::default() })
    }

    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// How long to wait at least before asking again, if the server says so.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_millis(self.retry_after_ms.unwrap_or_default())
    }

    fn retry_after(&self) -> Duration {
        Duration::from_millis(self.retry_after_ms.unwrap_or(1000))
    }

    /// The bound that was exceeded, if it is about one.
    fn quota(&self) -> Option<Quota> {
        if !matches!(&*self.code, "quota_exceeded" | "invalid" | "too_large") {
            return None;
        }
        let field = self.field.clone().unwrap_or_else(|| "request".to_owned());
        let value = self.value.clone().unwrap_or_else(|| "refused".to_owned());
        Some(Quota { field, value, rule: self.rule.clone().unwrap_or_else(|| self.detail.clone()) })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

/// A success whose member cannot be used.
pub(crate) fn unusable(member: &str) -> StoreError {
    StoreError::OutcomeUnknown { why: format!("the server's answer cannot be used: {member} is impossible") }
}

impl From<Box<Problem>> for StoreError {
    fn from(problem: Box<Problem>) -> Self {
        match &*problem.code {
            // A request beyond a bound or a rate was not carried out either.
            "unavailable" | "moving" | "overloaded" | "rate_limited" | "request_timeout"
            | "quota_exceeded" | "invalid" | "too_large" => {
                Self::Unavailable { retry_after: problem.retry_after(), why: problem.detail }
            }
            "closing" => Self::Closed,
            "unauthenticated" | "forbidden" => Self::Denied(problem.detail),
            _ if problem.is_of_a_question => {
                Self::Unavailable { retry_after: problem.retry_after(), why: problem.detail }
            }
            _ => Self::OutcomeUnknown { why: problem.detail },
        }
    }
}

impl From<Box<Problem>> for OwnerError {
    fn from(problem: Box<Problem>) -> Self {
        if let Some(quota) = problem.quota() {
            return Self::Quota(quota);
        }
        match &*problem.code {
            "unknown_owner" => Self::Unknown,
            "unauthorized" => Self::WrongSecret,
            "idempotency_mismatch" => Self::KeyMismatch,
            "closing" => Self::Closed,
            _ => Self::Store(problem.into()),
        }
    }
}

impl From<Box<Problem>> for LockError {
    fn from(problem: Box<Problem>) -> Self {
        if let Some(quota) = problem.quota() {
            return Self::Quota(quota);
        }
        match &*problem.code {
            "locked" => Self::Conflict(problem.conflicts.into_iter().map(Into::into).collect()),
            // A secret that was right once is that of an owner whom the server does not know.
            "unknown_owner" | "unauthorized" => Self::OwnerEnded,
            "lock_lost" => Self::Lost(problem.lost.into_iter().map(|lock| lock.name.0).collect()),
            "recovering" => Self::Recovering { retry_after: problem.retry_after() },
            "closing" => Self::Closed,
            _ => Self::Store(problem.into()),
        }
    }
}

impl From<Box<Problem>> for ClaimError {
    fn from(mut problem: Box<Problem>) -> Self {
        if let Some(quota) = problem.quota() {
            return Self::Quota(quota);
        }
        match &*problem.code {
            "claimed" if !problem.holders.is_empty() => {
                Self::Claimed { holder: Box::new(problem.holders.swap_remove(0).into()) }
            }
            "busy" => Self::Busy {
                holders: problem.holders.into_iter().map(Into::into).collect(),
                queued: problem.queued,
            },
            "already_assigned" => match problem.assignment.take() {
                Some(assignment) => Self::AlreadyAssigned(Box::new(assignment.into())),
                None => Self::Store(problem.into()),
            },
            "claim_expired" => Self::ClaimExpired,
            "claim_lost" => {
                let assigned = problem.assignment.take();
                Self::ClaimLost { assigned: assigned.map(|assignment| Box::new(assignment.into())) }
            }
            "recovering" => Self::Recovering { retry_after: problem.retry_after() },
            "closing" => Self::Closed,
            _ => Self::Store(problem.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> Box<Problem> {
        Problem::of(&Answer { status: 503, is_replayed: false, location: None, body: body.into() })
    }

    #[test]
    fn what_is_no_problem_leaves_the_outcome_unknown() {
        for body in ["", "<html>", "[]", "\"a\""] {
            let error = StoreError::from(problem(body));
            let StoreError::OutcomeUnknown { why } = &error else { panic!("{error}") };
            assert_eq!(why, "status 503, but not as a lockhouse server answers", "{body}");
        }
        let error = LockError::from(problem("{}"));
        assert!(matches!(error, LockError::Store(StoreError::OutcomeUnknown { .. })), "{error}");
        let error = StoreError::from(problem(r#"{"code":"outcome_unknown","detail":"fenced"}"#));
        assert_eq!(error, StoreError::OutcomeUnknown { why: "fenced".to_owned() });
        assert!(matches!(ClaimError::from(problem(r#"{"code":"claimed"}"#)), ClaimError::Store(_)));
    }

    #[test]
    fn of_a_question_no_outcome_is_unknown() {
        for body in ["", "[]", r#"{"code":"internal"}"#, r#"{"code":"outcome_unknown"}"#] {
            let mut problem = problem(body);
            problem.is_of_a_question = true;
            let error = StoreError::from(problem);
            assert!(matches!(error, StoreError::Unavailable { .. }), "{body}: {error}");
        }
    }

    #[test]
    fn a_refusal_for_a_while_says_for_how_long() {
        let body = r#"{"code":"unavailable","detail":"no space","retryAfterMs":2500}"#;
        let retry_after = Duration::from_millis(2500);
        let expected = StoreError::Unavailable { why: "no space".to_owned(), retry_after };
        assert_eq!(StoreError::from(problem(body)), expected);
        let body = r#"{"code":"recovering","detail":"","retryAfterMs":2500}"#;
        assert_eq!(LockError::from(problem(body)), LockError::Recovering { retry_after });
        assert_eq!(ClaimError::from(problem(body)), ClaimError::Recovering { retry_after });
    }
}
