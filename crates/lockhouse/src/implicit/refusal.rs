//! Why a request did not get at its records.

use std::convert::Infallible;

use http::{HeaderValue, Response, StatusCode, header};
use lockhouse_core::NameBuf;

use crate::error::StoreError;
use crate::owners::error::{LockError, OwnerError};

/// Why the layer answered a request in the handler's place.
///
/// The layer answers in plain text, and puts the refusal into the extensions of the response, so that an
/// outer layer can make a page of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no session: the user has not signed in, or was silent for too long.
    #[error("there is no session, or it has ended: sign in again")]
    NoSession,
    /// The session could not be found or begun.
    #[error("the session cannot be found: {0}")]
    Owner(OwnerError),
    /// The locks of the route could not be taken; or the handler has succeeded, and locks that it relied on
    /// were lost meanwhile: its step was undone.
    #[error(transparent)]
    Lock(LockError),
    /// The handler has succeeded, but its step could not be made durable: it was undone. With
    /// [`StoreError::OutcomeUnknown`] it may be durable all the same: its locks stay the session's, and those
    /// that it gave back may be gone.
    #[error("the locks cannot be kept: {0}")]
    Store(StoreError),
}

/// Why a record could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A mistake of the program: the route declares neither.
    #[error("this route declares neither that it begins a business transaction nor that it continues one")]
    Undeclared,
    /// A mistake of the program: the request is over.
    #[error("the request to which this application session was bound is over")]
    Unbound,
    /// No earlier step of the business transaction has locked it, or the lock is gone.
    #[error("{} is not locked by this session", .0.as_name().display())]
    NotLocked(NameBuf),
    /// The record could not be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Why a record could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError<E = Infallible> {
    /// The record could not be locked, so that it was not loaded.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The record was locked, but could not be loaded.
    #[error("{0}")]
    Load(E),
}

impl Refusal {
    /// Why a step whose handler has succeeded did not.
    pub(crate) fn of_commit(error: LockError) -> Self {
        match error {
            LockError::OwnerEnded => Self::NoSession,
            LockError::Store(error) => Self::Store(error),
            error => Self::Lock(error),
        }
    }

    /// The status of the plain answer: 403, 409, 423, 503, or 504 if the outcome is unknown.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoSession | Self::Lock(LockError::OwnerEnded) => StatusCode::FORBIDDEN,
            Self::Lock(LockError::Conflict(_)) => StatusCode::LOCKED,
            Self::Lock(LockError::Lost(_)) => StatusCode::CONFLICT,
            Self::Store(StoreError::OutcomeUnknown { .. })
            | Self::Lock(LockError::Store(StoreError::OutcomeUnknown { .. }))
            | Self::Owner(OwnerError::Store(StoreError::OutcomeUnknown { .. })) => {
                StatusCode::GATEWAY_TIMEOUT
            }
            Self::Owner(_) | Self::Lock(_) | Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// In how many seconds to try again, if that is known.
    fn retry_after(&self) -> Option<u64> {
        let store = match self {
            Self::Lock(LockError::Recovering { retry_after }) => return Some(seconds(*retry_after)),
            Self::Store(store)
            | Self::Lock(LockError::Store(store))
            | Self::Owner(OwnerError::Store(store)) => store,
            _ => return None,
        };
        match store {
            StoreError::Unavailable { retry_after, .. } => Some(seconds(*retry_after)),
            _ => None,
        }
    }

    pub(crate) fn into_response<B: From<String>>(self) -> Response<B> {
        let mut response = Response::new(B::from(format!("{self}\n")));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

fn seconds(duration: std::time::Duration) -> u64 {
    // The time is rounded up: a client that comes earlier comes in vain.
    duration.as_nanos().div_ceil(1_000_000_000).max(1) as u64
}
