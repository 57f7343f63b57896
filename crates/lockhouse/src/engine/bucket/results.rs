//! What becomes of a command: at once, or once the store has kept what it rests on.

use lockhouse_core::{Grant, Outcome, Refusal, RequestId};
use tokio::sync::oneshot;

/// What becomes of a question.
#[derive(Debug)]
pub(crate) enum Reply {
    Answered(Outcome),
    /// The answer comes once the store has kept what it rests on; never, if it cannot.
    Waits(oneshot::Receiver<Outcome>),
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum RequestResult {
    Granted(Grant),
    /// For its grant, or for that to be kept on which it rests.
    Waits(RequestId),
    Refused(Box<Refusal>),
    /// The refusal comes once the store has kept what it rests on.
    RefusedLater(oneshot::Receiver<Outcome>),
}
