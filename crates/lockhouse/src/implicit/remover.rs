//! The lock remover of a web session.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::OwnerId;
use tokio::time::Instant;

use crate::error::StoreError;
use crate::owners::Owner;

/// The handler of errors that no caller waits for.
pub(crate) type Errors = Arc<dyn Fn(SeriousError) + Send + Sync>;

/// An error outside of any request. No request failed by it, so that an operator has to look.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeriousError {
    /// A web session is over, but its locks could not be released. The locks go at the latest with their
    /// owner, when it was silent for its TTL.
    #[error("the locks of {user:?} (owner {}) could not be released at the end of the session: {error}", owner.get())]
    NotRemoved {
        /// The owner of the locks.
        owner: OwnerId,
        /// The name of the user.
        user: String,
        /// Why.
        error: StoreError,
    },
    /// A request has succeeded, but the locks that it gave back are still held, at the latest until the end
    /// of its session.
    #[error("the locks that a step of {user:?} (owner {}) gave back could not be released: {error}", owner.get())]
    NotGivenBack {
        /// The owner of the locks.
        owner: OwnerId,
        /// The name of the user.
        user: String,
        /// Why.
        error: StoreError,
    },
}

/// Releases all locks of a web session when the session is over, however that comes. There is exactly one per
/// session, made together with it and before it can lock anything; so none is ever replaced by another, which
/// would have to learn whose locks are whose.
pub(crate) struct LockRemover {
    owner: Owner,
    user: String,
    errors: Errors,
}

impl fmt::Debug for LockRemover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRemover").field("owner", &self.owner.id()).finish_non_exhaustive()
    }
}

impl LockRemover {
    pub(crate) fn new(owner: &Owner, user: &str, errors: &Errors) -> Self {
        Self { owner: owner.clone(), user: user.to_owned(), errors: errors.clone() }
    }

    /// The session is over: ends its owner, and so all its locks, in one change of their own.
    pub(crate) async fn unbound(&self) -> Result<(), StoreError> {
        if let Err(error) = self.owner.end().await {
            let (owner, user) = (self.owner.id(), self.user.clone());
            (self.errors)(SeriousError::NotRemoved { owner, user, error: error.clone() });
            return Err(error);
        }
        Ok(())
    }

    /// Ends the owner after all, for as long as that makes sense: not if the store is gone for good, and not
    /// for longer than the owner lives.
    pub(crate) async fn try_again(&self, mut error: StoreError, until: Instant) {
        while Instant::now() < until {
            let pause = match error {
                StoreError::Unavailable { retry_after, .. } => retry_after.max(PAUSE),
                StoreError::OutcomeUnknown { .. } => PAUSE,
                StoreError::Fenced | StoreError::Failed(_) | StoreError::Closed | StoreError::Denied(_) => {
                    return;
                }
            };
            tokio::time::sleep(pause).await;
            match self.owner.end().await {
                Ok(_) => return,
                Err(again) => error = again,
            }
        }
    }

    /// A step has succeeded, and its releases have failed.
    pub(crate) fn not_given_back(&self, error: StoreError) {
        let (owner, user) = (self.owner.id(), self.user.clone());
        (self.errors)(SeriousError::NotGivenBack { owner, user, error });
    }
}

/// At least so long between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
