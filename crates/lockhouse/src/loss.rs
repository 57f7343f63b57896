//! Why locks are lost.

use std::sync::Arc;

use lockhouse_core::LossReason;

/// Why a lock is held no more although its holder did not release it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Another request stole the name.
    Stolen,
    /// The lock was held for its longest hold, or its agent's lease ran out.
    Expired,
    /// The lock's agent has ended.
    Terminated,
    /// An operator broke it.
    Broken {
        /// The operator's words.
        reason: Option<Arc<str>>,
    },
    /// The server knows nothing of its session any more: it was started anew, or ended the session.
    SessionEnded,
    /// The credential of its session was deleted, ran out, or lost its permission.
    Denied,
    /// The lock had been brought back after a restart, and then a lock that excludes it, too, which is
    /// younger.
    Superseded,
    /// Another process has taken the store over.
    Fenced,
    /// The store can no longer be trusted.
    StoreFailed,
}

impl From<LossReason> for Loss {
    fn from(reason: LossReason) -> Self {
        match reason {
            // A younger lock stands in its place, whether it was asked for now or is brought back.
            LossReason::Stolen => Self::Stolen,
            LossReason::Expired => Self::Expired,
            LossReason::Superseded => Self::Superseded,
            LossReason::Broken { reason } => Self::Broken { reason: reason.map(Arc::from) },
        }
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stolen => "stolen by another request",
            Self::Expired => "expired",
            Self::Terminated => "its agent has ended",
            Self::Broken { reason: None } => "broken by an operator",
            Self::Broken { reason: Some(reason) } => return write!(f, "broken by an operator: {reason}"),
            Self::SessionEnded => "the server knows nothing of its session any more",
            Self::Denied => "the server takes its credential no more, or allows it less",
            Self::Superseded => "superseded by a younger lock after a restart",
            Self::Fenced => "another process has taken the store over",
            Self::StoreFailed => "the store can no longer be trusted",
        })
    }
}

impl std::error::Error for Loss {}
