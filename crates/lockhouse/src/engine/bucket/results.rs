//! The results of a command: at once, or once its changes are durable.

use lockhouse_core::{Grant, NameBuf, Outcome, Refusal, RequestId};
use tokio::sync::oneshot;

/// The result of a question.
#[derive(Debug)]
pub(crate) enum Reply {
    Answered(Outcome),
    /// The answer comes once the changes that it depends on are durable; never, if they cannot be.
    Waits(oneshot::Receiver<Outcome>),
}

/// Why a command was not carried out, or a question not answered: nothing has happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotAsked {
    /// The house is closed, or has lost its store.
    IsOver,
    /// The answer would have to wait for the store, where too much waits already.
    TooMuchWaits,
}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum RequestResult {
    Granted(Grant),
    /// The request waits for its grant, or for the changes that the grant depends on.
    Waits(RequestId),
    Refused(Box<Refusal>),
    /// The refusal comes once the changes that it depends on are durable.
    RefusedLater(oneshot::Receiver<Outcome>),
}

/// The result of the end of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepResult {
    /// The step has succeeded, and so many locks are given back.
    Succeeded {
        released: usize,
    },
    OwnerEnded,
    /// The owner does not hold these locks any more; nothing has happened.
    Lost(Vec<NameBuf>),
}
