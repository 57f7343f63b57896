//! The results of a command: at once, or once its changes are durable.

use lockhouse_core::{Grant, Outcome, Refusal, RequestId};
use tokio::sync::oneshot;

/// The result of a question.
#[derive(Debug)]
pub(crate) enum Reply {
    Answered(Outcome),
    /// The answer comes once the changes that it depends on are durable; never, if they cannot be.
    Waits(oneshot::Receiver<Outcome>),
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
