//! Why a request failed: small closed enums that name the field, the value and the rule.

use std::time::Duration;

use lockhouse_core::{InvalidName, Limits, Mode, Refusal};

use crate::loss::Loss;
use crate::snapshot::Holder;

/// Why a lock was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request was made with `if_available` and could not be granted at once.
    #[error("not available: {0}")]
    Unavailable(Unavailable),
    /// The request was not granted within its `timeout`.
    #[error("timed out before the lock was granted")]
    TimedOut,
    /// The request's cancellation token was cancelled before the lock was granted.
    #[error("aborted before the lock was granted")]
    Aborted,
    /// The request is not supported (the specification's NotSupportedError).
    #[error("not supported: {0}")]
    NotSupported(NotSupported),
    /// A bound was exceeded (QuotaExceededError).
    #[error(transparent)]
    Quota(Quota),
    /// The agent has ended (InvalidStateError).
    #[error("the agent has ended")]
    AgentEnded,
    /// The bucket grants nothing any more, as its server stops.
    #[error("the bucket is closed")]
    Closed,
    /// The house has lost its store, so that it grants nothing any more; nothing has happened.
    #[error("nothing is granted any more: {0}")]
    NoStore(Loss),
    /// The answer rests on a change that the store cannot make durable at the moment, such as while the disk
    /// is full; nothing has happened. A store that does not answer counts as such after
    /// [`store_timeout`](crate::Options::store_timeout).
    #[error("unavailable: {why}")]
    StoreUnavailable {
        /// One line that names the fault.
        why: String,
        /// When to ask again.
        retry_after: Duration,
    },
    /// A steal was under way when the server went, or the store was lost: it may have happened or not.
    #[error("outcome unknown: the server or its store went while the steal was under way")]
    OutcomeUnknown,
    /// The lock was lost while the task held it, and the task ran to its end nevertheless; or one of several
    /// was lost while a later one was waited for.
    #[error("the lock was lost: {0}")]
    Lost(Loss),
    /// The server refused the request for a reason that this client does not know.
    #[error("refused by the server: {0}")]
    Refused(String),
    /// The server broke the protocol, so that nothing that it said can be relied on.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
}

impl RequestError {
    /// Why there is no answer that rests on the store.
    pub(crate) fn unanswered(why: StoreError) -> Self {
        match why {
            StoreError::Unavailable { why, retry_after } => Self::StoreUnavailable { why, retry_after },
            StoreError::Fenced => Self::NoStore(Loss::Fenced),
            StoreError::Failed(_) => Self::NoStore(Loss::StoreFailed),
            StoreError::Closed | StoreError::Denied(_) | StoreError::OutcomeUnknown { .. } => Self::Closed,
        }
    }
}

impl From<InvalidName> for RequestError {
    fn from(invalid: InvalidName) -> Self {
        Self::NotSupported(invalid.into())
    }
}

impl From<InvalidName> for NotSupported {
    fn from(invalid: InvalidName) -> Self {
        match invalid {
            InvalidName::Reserved => Self::ReservedName,
            InvalidName::NotWtf8(_) => Self::MalformedName(invalid),
        }
    }
}

/// The holders and requests that were in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unavailable {
    /// The first holders, at most 8.
    pub holders: Vec<Holder>,
    /// How many requests wait for the name.
    pub queued: u32,
}

impl Unavailable {
    /// Who holds it, and how many wait.
    pub(crate) fn text(holders: &[Holder], queued: u32) -> String {
        let holders = match holders.split_first() {
            None => "nobody holds it".to_owned(),
            Some((first, [])) => format!("held by {:?}", first.client_id),
            Some((first, more)) => format!("held by {:?} and {} more", first.client_id, more.len()),
        };
        format!("{holders}, {queued} waiting")
    }
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Self::text(&self.holders, self.queued))
    }
}

/// A request that the specification forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSupported {
    /// The name begins with `-`.
    #[error("name: names that begin with \"-\" are reserved")]
    ReservedName,
    /// Malformed WTF-8.
    #[error("name: {0}")]
    MalformedName(InvalidName),
    /// `steal` together with `if_available`.
    #[error("steal and if_available cannot be used together")]
    StealIfAvailable,
    /// `steal` of a shared lock.
    #[error("mode: steal takes an exclusive lock, not {0:?}")]
    StealMode(Mode),
    /// A cancellation token together with `steal` or `if_available`, which never wait.
    #[error("signal: cannot be used with steal or if_available")]
    Signal,
}

/// Why a hold was not broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BreakError {
    /// A bound was exceeded.
    #[error(transparent)]
    Quota(Quota),
    /// The change cannot be made durable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a change was not made durable, or a question not answered. Nothing has happened, unless it is
/// [`OutcomeUnknown`](Self::OutcomeUnknown).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot write at the moment, or a remote server was not reached; nothing has happened.
    #[error("unavailable: {why}")]
    Unavailable {
        /// One line that names the fault and the remedy.
        why: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// Another process writes to the store now; nothing has happened.
    #[error("another process has taken the store over")]
    Fenced,
    /// The store can no longer be trusted; nothing has happened.
    #[error("the store has failed: {0}")]
    Failed(String),
    /// The house is closed; of a remote one, the connection is, or the server stops. Nothing has happened.
    #[error("the house is closed")]
    Closed,
    /// A remote server takes no such key, or the key has not the permission; nothing has happened.
    #[error("access is denied: {0}")]
    Denied(String),
    /// The change was carried out, and it is unknown whether it is kept: the store was lost before it
    /// answered; or a remote server got the call and gave no answer that can be relied on. Questions change
    /// nothing, and never have this error.
    ///
    /// What is harmless when done twice may be asked again, of the server or process that comes next. Of the
    /// rest the state says what has happened.
    #[error("outcome unknown: {why}")]
    OutcomeUnknown {
        /// One line that says what kept the answer away.
        why: String,
    },
}

impl StoreError {
    /// The error of a call that is done in parts, some of which were done if `some`.
    pub(crate) fn after_a_part(self, some: bool) -> Self {
        match self {
            Self::OutcomeUnknown { .. } => self,
            _ if some => Self::OutcomeUnknown { why: format!("only a part was done: {self}") },
            _ => self,
        }
    }
}

/// A bound that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value}, but {rule}")]
pub struct Quota {
    /// The field that was too large.
    pub field: String,
    /// How much it was.
    pub value: String,
    /// How much is allowed.
    pub rule: String,
}

impl Quota {
    pub(crate) fn new(field: &str, value: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { field: field.to_owned(), value: value.into(), rule: rule.into() }
    }

    /// What is full by this setting of a server, which a program that embeds the house has as an option.
    fn full(field: &str, value: String, setting: &str) -> Self {
        Self::new(field, value, format!("it cannot have more (limits.{setting})"))
    }

    /// A quota error: so many bytes where fewer are allowed.
    pub(crate) fn bytes(field: &str, bytes: usize, limit: usize) -> Self {
        Self::new(field, format!("{bytes} bytes"), format!("at most {limit} bytes are allowed"))
    }

    /// Whether the label of an owner or a claimant has something to show to others.
    pub(crate) fn check_label(field: &str, label: &str) -> Result<(), Self> {
        if label.is_empty() {
            return Err(Self::new(field, "0 bytes", "at least 1 byte is needed"));
        }
        Ok(())
    }

    /// A longest hold that is none.
    pub(crate) fn max_hold(max_hold: Duration) -> Self {
        Self::new("max_hold", format!("{max_hold:?}"), "from 1 ms to 2^53 - 1 ms are allowed")
    }

    /// How long an owner lives at most has the bounds of a TTL.
    pub(crate) fn check_max_life(max_ms: Option<u64>, limits: &Limits) -> Result<(), Self> {
        let (least, most) = limits.ttl_ms;
        match max_ms {
            Some(ms) if !(least..=most).contains(&ms) => {
                let rule = format!("from {least} ms to {most} ms are allowed");
                Err(Self::new("max_life", format!("{ms} ms"), rule))
            }
            _ => Ok(()),
        }
    }

    /// The bound that a refusal of the core is about, if it is about one.
    pub(crate) fn of(refusal: &Refusal) -> Option<Self> {
        Some(match *refusal {
            Refusal::NameTooLong { units, limit } => {
                Self::new("name", format!("{units} units"), format!("at most {limit} units are allowed"))
            }
            Refusal::MetadataTooLong { bytes, limit } => Self::bytes("metadata", bytes, limit),
            Refusal::TooManyRequests { limit } => {
                Self::new("agent", format!("{limit} requests and locks"), "it cannot have one more")
            }
            Refusal::TooManyEntries { limit } => {
                Self::full("bucket", format!("{limit} requests and locks"), "requests_per_bucket")
            }
            Refusal::TooManyNames { limit } => {
                Self::full("bucket", format!("{limit} names in use"), "names_per_bucket")
            }
            Refusal::BudgetExceeded { limit } => {
                Self::full("tenant", format!("{limit} bytes in memory"), "table_mib_per_tenant")
            }
            Refusal::TooManyAgents { limit } => {
                Self::full("bucket", format!("{limit} agents"), "agents_per_bucket")
            }
            Refusal::LabelTooLong { bytes, limit } => Self::bytes("label", bytes, limit),
            Refusal::TtlOutOfBounds { ttl_ms, least, most } => {
                Self::new("ttl", format!("{ttl_ms} ms"), format!("from {least} ms to {most} ms are allowed"))
            }
            Refusal::TooManyLocksAtOnce { limit } => Self::new(
                "locks",
                format!("more than {limit} in one call"),
                format!("at most {limit} are allowed"),
            ),
            Refusal::TooManyLocks { limit } => {
                Self::full("owner", format!("{limit} locks"), "locks_per_owner")
            }
            Refusal::TooManyOwners { limit } => {
                Self::full("bucket", format!("{limit} owners"), "owners_per_bucket")
            }
            Refusal::TooManyAssignments { limit } => {
                Self::full("bucket", format!("{limit} claims and assignments"), "assignments_per_bucket")
            }
            _ => return None,
        })
    }
}
