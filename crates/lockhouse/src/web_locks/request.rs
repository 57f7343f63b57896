//! One request: its options, and the future that it becomes.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lockhouse_core::{Acquire, FencingToken, Mode, Name};
use tokio_util::sync::CancellationToken;

use crate::error::{NotSupported, Quota, RequestError};
use crate::name_arg::NameArg;
#[cfg(feature = "remote")]
use crate::remote::request::RemoteRequest;
use crate::web_locks::backend::Backend;
use crate::web_locks::guard::LockGuard;
use crate::web_locks::local_request::LocalRequest;
use crate::web_locks::options::RequestOptions;
use crate::whole_millis::whole_millis;

/// A request that has not been made yet; awaiting it makes it.
/// <https://w3c.github.io/web-locks/#api-lock-manager-request>
#[derive(Debug)]
#[must_use = "a request does nothing unless it is awaited"]
pub struct Request<'a> {
    backend: Backend,
    name: NameArg<'a>,
    mode: Mode,
    if_available: bool,
    steal: bool,
    options: Option<Box<RequestOptions>>,
}

impl<'a> Request<'a> {
    #[inline]
    pub(crate) fn new(backend: Backend, name: NameArg<'a>) -> Self {
        Self { backend, name, mode: Mode::Exclusive, if_available: false, steal: false, options: None }
    }

    /// Share the name with other shared holders.
    pub fn shared(self) -> Self {
        self.mode(Mode::Shared)
    }

    /// Hold the name in this mode; exclusive unless said otherwise.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Be granted at once or refused with [`RequestError::Unavailable`]; also refused while others wait. An
    /// answer that rests on a change which is on its way to the store waits for that, and is
    /// [`RequestError::StoreUnavailable`] if the store cannot write at the moment.
    pub fn if_available(mut self) -> Self {
        self.if_available = true;
        self
    }

    /// Take the name from its holders, ahead of the queue.
    ///
    /// For cases that cannot be recovered otherwise: the victims' code keeps running, no longer alone, and
    /// nothing can promise the thief that no other code is still at work. Guard the resource by the [fencing
    /// token](LockGuard::fencing_token).
    pub fn steal(mut self) -> Self {
        self.steal = true;
        self
    }

    /// Give up with [`RequestError::TimedOut`] if not granted within so long. Needs a tokio runtime with time
    /// enabled.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options().timeout = Some(timeout);
        self
    }

    /// Give up with [`RequestError::Aborted`] once the token is cancelled. Without effect after the grant.
    pub fn signal(mut self, signal: CancellationToken) -> Self {
        self.options().signal = Some(signal);
        self
    }

    /// Something to show to others in snapshots and refusals; at most 1024 bytes.
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.options().metadata = Some(metadata.into());
        self
    }

    /// Lose the lock so long after its grant, in whole milliseconds and at least one, if it is still held
    /// then.
    ///
    /// Needs a tokio runtime with time enabled, which watches the time. Should that runtime end before the
    /// lock does, the next use of the bucket in another one takes over.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options().max_hold = Some(max_hold);
        self
    }

    /// Awaits the lock, runs the task, releases the lock.
    ///
    /// # Errors
    ///
    /// As [`LockManager::with`](crate::LockManager::with).
    pub async fn run<T>(self, task: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, RequestError> {
        let guard = self.await?;
        let result = task(&guard).await;
        match guard.loss() {
            None => Ok(result),
            Some(loss) => Err(RequestError::Lost(loss)),
        }
    }

    fn options(&mut self) -> &mut RequestOptions {
        self.options.get_or_insert_default()
    }

    /// The specification's checks, in its order. <https://w3c.github.io/web-locks/#api-lock-manager-request>
    #[inline]
    fn checked(&self) -> Result<(Name<'a>, Acquire), RequestError> {
        let name = self.name.get()?;
        let acquire = match (self.steal, self.if_available) {
            (true, true) => return Err(RequestError::NotSupported(NotSupported::StealIfAvailable)),
            (true, false) if self.mode == Mode::Shared => {
                return Err(RequestError::NotSupported(NotSupported::StealMode(self.mode)));
            }
            (true, false) => Acquire::Steal,
            (false, true) => Acquire::IfAvailable(self.mode),
            (false, false) => Acquire::Wait(self.mode),
        };
        if let Some(signal) = self.options.as_ref().and_then(|options| options.signal.as_ref()) {
            if !matches!(acquire, Acquire::Wait(_)) {
                return Err(RequestError::NotSupported(NotSupported::Signal));
            }
            if signal.is_cancelled() {
                return Err(RequestError::Aborted);
            }
        }
        match self.options.as_ref().and_then(|options| options.max_hold) {
            Some(max_hold) if !(1..FencingToken::LIMIT).contains(&whole_millis(max_hold)) => {
                Err(RequestError::Quota(Quota::max_hold(max_hold)))
            }
            _ => Ok((name, acquire)),
        }
    }
}

impl<'a> IntoFuture for Request<'a> {
    type Output = Result<LockGuard, RequestError>;
    type IntoFuture = Acquiring<'a>;

    #[inline]
    fn into_future(self) -> Acquiring<'a> {
        let stage = match self.checked() {
            Err(error) => Stage::Failed(Some(error)),
            Ok((name, acquire)) => match self.backend {
                Backend::Local(agent) => Stage::Local(LocalRequest::new(agent, name, acquire, self.options)),
                #[cfg(feature = "remote")]
                Backend::Remote(agent) => {
                    let request =
                        RemoteRequest::new(agent, name.to_buf(), acquire, self.options.unwrap_or_default());
                    Stage::Remote(Box::new(request))
                }
            },
        };
        Acquiring(stage)
    }
}

/// The future of a request.
///
/// # Errors
///
/// [`RequestError`], as the options have it.
///
/// # Cancel safety
///
/// Dropping it aborts the request. If the lock was granted at that very moment, it is released.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Acquiring<'a>(Stage<'a>);

#[derive(Debug)]
enum Stage<'a> {
    Failed(Option<RequestError>),
    Local(LocalRequest<'a>),
    #[cfg(feature = "remote")]
    Remote(Box<RemoteRequest>),
}

impl Future for Acquiring<'_> {
    type Output = Result<LockGuard, RequestError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Stage::Local(request) => request.poll(context),
            Stage::Failed(error) => Poll::Ready(Err(error.take().expect("polled after completion"))),
            #[cfg(feature = "remote")]
            Stage::Remote(request) => request.poll(context),
        }
    }
}
