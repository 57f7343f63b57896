//! Options that few requests use: metadata, a longest hold, a timeout, a cancellation token.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::error::RequestError;

/// The options of few requests. The options are stored apart, so that a plain request stays small.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestOptions {
    pub(crate) metadata: Option<String>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) signal: Option<CancellationToken>,
}

impl RequestOptions {
    /// Whether the cancellation token, if there is one, is cancelled.
    pub(crate) fn is_aborted(&self) -> bool {
        self.signal.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}

/// The causes that may end a wait before its grant: the cancellation token, the timeout.
#[derive(Debug)]
pub(crate) struct WaitLimits {
    signal: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    timeout: Option<Pin<Box<Sleep>>>,
}

impl WaitLimits {
    pub(crate) fn new(options: &mut RequestOptions) -> Option<Self> {
        let signal = options.signal.take().map(|signal| Box::pin(signal.cancelled_owned()));
        let timeout = options.timeout.take().map(|timeout| Box::pin(tokio::time::sleep(timeout)));
        (signal.is_some() || timeout.is_some()).then_some(Self { signal, timeout })
    }

    /// Why the wait is over, if it is.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Option<RequestError> {
        if self.signal.as_mut().is_some_and(|signal| signal.as_mut().poll(context).is_ready()) {
            return Some(RequestError::Aborted);
        }
        let late = self.timeout.as_mut().is_some_and(|timeout| timeout.as_mut().poll(context).is_ready());
        late.then_some(RequestError::TimedOut)
    }
}
