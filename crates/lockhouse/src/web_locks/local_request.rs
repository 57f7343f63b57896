//! A request of an agent of this process.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockhouse_core::{Acquire, Grant, Name, NewRequest, Outcome, Refusal, RequestId};
use tokio::sync::oneshot;
use tokio_util::sync::ReusableBoxFuture;

use crate::engine::bucket::results::RequestResult;
use crate::engine::waiters::Wait;
use crate::error::{RequestError, StoreError};
use crate::loss::Loss;
use crate::web_locks::guard::LockGuard;
use crate::web_locks::local_agent::LocalAgent;
use crate::web_locks::options::{RequestOptions, WaitLimits};
use crate::whole_millis::whole_millis;

/// The state of its future.
#[derive(Debug)]
pub(crate) struct LocalRequest<'a> {
    /// `None` once it is over.
    agent: Option<Arc<LocalAgent>>,
    name: Name<'a>,
    acquire: Acquire,
    options: Option<Box<RequestOptions>>,
    /// The request, once it was made and had to wait.
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// `None` if it was refused, which may not be announced yet.
    request: Option<RequestId>,
    rare: Option<Box<Rare>>,
}

/// The parts that few waiting requests have.
#[derive(Debug)]
struct Rare {
    limits: Option<WaitLimits>,
    refusal: Option<oneshot::Receiver<Outcome>>,
    /// Of a request that is not to wait: comes once the store cannot write.
    away: Option<ReusableBoxFuture<'static, StoreError>>,
}

impl<'a> LocalRequest<'a> {
    #[inline]
    pub(crate) fn new(
        agent: Arc<LocalAgent>,
        name: Name<'a>,
        acquire: Acquire,
        options: Option<Box<RequestOptions>>,
    ) -> Self {
        Self { agent: Some(agent), name, acquire, options, waiting: None }
    }

    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<LockGuard, RequestError>> {
        if self.waiting.is_none() {
            match self.make(context) {
                Ok(Some(grant)) => return Poll::Ready(Ok(self.finish(grant))),
                Ok(None) if self.waiting.as_ref().is_some_and(Waiting::is_for_the_grant_only) => {
                    return Poll::Pending;
                }
                Ok(None) => {}
                Err(error) => {
                    self.agent = None;
                    return Poll::Ready(Err(error));
                }
            }
        }
        self.poll_waiting(context)
    }

    /// Makes the request; its grant, unless it has to wait.
    #[inline]
    fn make(&mut self, context: &mut Context<'_>) -> Result<Option<Grant>, RequestError> {
        let agent = self.agent.as_ref().expect("polled after completion");
        // The token was checked before, but the future may have lain about since.
        if self.options.as_ref().is_some_and(|options| options.is_aborted()) {
            return Err(RequestError::Aborted);
        }
        // One that was made before the store was lost may have happened.
        if let Some(why) = agent.bucket.why_over().filter(|_| self.acquire == Acquire::Steal) {
            return Err(RequestError::NoStore(why));
        }
        let request = NewRequest {
            agent: agent.id,
            name: self.name,
            acquire: self.acquire,
            metadata: self.options.as_ref().and_then(|options| options.metadata.as_deref()),
            max_hold_ms: self.options.as_ref().and_then(|options| options.max_hold).map(whole_millis),
        };
        if request.max_hold_ms.is_some() {
            agent.bucket.remember_runtime();
        }
        match agent.bucket.request(&request, context.waker()) {
            RequestResult::Granted(grant) => Ok(Some(grant)),
            RequestResult::Waits(request) => Ok(self.wait(Some(request), None)),
            RequestResult::Refused(refusal) => Err(agent.refused(*refusal)),
            RequestResult::RefusedLater(refusal) => Ok(self.wait(None, Some(refusal))),
        }
    }

    #[inline]
    fn wait(
        &mut self,
        request: Option<RequestId>,
        refusal: Option<oneshot::Receiver<Outcome>>,
    ) -> Option<Grant> {
        // Noted first: a timer outside a runtime panics, and dropping this must take the request back.
        let waiting = self.waiting.insert(Waiting { request, rare: None });
        let limits = self.options.as_mut().and_then(|options| WaitLimits::new(options));
        let away = match (&self.agent, self.acquire) {
            (Some(agent), Acquire::IfAvailable(_)) => agent.bucket.store_is_away(request.is_some()),
            _ => None,
        };
        if limits.is_some() || refusal.is_some() || away.is_some() {
            let away = away.map(ReusableBoxFuture::new);
            waiting.rare = Some(Box::new(Rare { limits, refusal, away }));
        }
        None
    }

    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Result<LockGuard, RequestError>> {
        let (Some(agent), Some(waiting)) = (&self.agent, &mut self.waiting) else {
            panic!("polled after completion");
        };
        let over = waiting.rare.as_mut().and_then(|rare| rare.limits.as_mut()?.poll(context));
        if over == Some(RequestError::Aborted) {
            // The abort wins until the lock has been handed over: dropping `waiting` releases one that was
            // just granted.
            self.give_up();
            return Poll::Ready(Err(RequestError::Aborted));
        }
        let wait = match waiting.request {
            Some(request) => agent.bucket.poll(request, over.is_none().then_some(context.waker())),
            None => waiting.poll_refusal(context),
        };
        let error = match (wait, over) {
            (Wait::Granted(token), _) => {
                let request = waiting.request.expect("a refusal is no grant");
                return Poll::Ready(Ok(self.finish(Grant { request, token })));
            }
            (Wait::Pending, None) => match waiting.poll_store(context) {
                Some(why) => RequestError::unanswered(why),
                None => return Poll::Pending,
            },
            (Wait::Pending, Some(error)) => error,
            (Wait::Refused(refusal), _) => agent.refused(refusal),
            (Wait::Over(why), _) => without_store(self.acquire, why),
            (Wait::Gone, _) => {
                let why = agent.bucket.why_over();
                why.map_or(RequestError::AgentEnded, |why| without_store(self.acquire, why))
            }
        };
        self.give_up();
        Poll::Ready(Err(error))
    }

    #[inline]
    fn finish(&mut self, grant: Grant) -> LockGuard {
        self.waiting = None;
        let agent = self.agent.take().expect("polled after completion");
        LockGuard::local(agent, grant, self.name.to_buf(), self.acquire.mode())
    }

    fn give_up(&mut self) {
        if let (Some(agent), Some(Waiting { request: Some(request), .. })) =
            (self.agent.take(), self.waiting.take())
        {
            agent.bucket.withdraw(request);
        }
    }
}

/// The end of a request that was made, once the store is lost. A steal may have taken a name from a durable
/// holder, and it is unknown whether that is kept.
fn without_store(acquire: Acquire, why: Loss) -> RequestError {
    if acquire == Acquire::Steal { RequestError::OutcomeUnknown } else { RequestError::NoStore(why) }
}

impl Drop for LocalRequest<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.waiting.is_some() {
            self.give_up();
        }
    }
}

impl Waiting {
    /// Whether nothing but its grant can end it, and the grant knows its waker.
    #[inline]
    fn is_for_the_grant_only(&self) -> bool {
        self.rare.is_none()
    }

    /// Why its answer has to wait for the store, if it has to and is not to wait.
    fn poll_store(&mut self, context: &mut Context<'_>) -> Option<StoreError> {
        match self.rare.as_mut()?.away.as_mut()?.poll(context) {
            Poll::Ready(why) => Some(why),
            Poll::Pending => None,
        }
    }

    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Wait {
        let Some(refusal) = self.rare.as_mut().and_then(|rare| rare.refusal.as_mut()) else {
            return Wait::Gone;
        };
        match Pin::new(refusal).poll(context) {
            Poll::Pending => Wait::Pending,
            Poll::Ready(Ok(Outcome::Refused(refusal))) => Wait::Refused(refusal),
            // What it rests on will never be durable.
            Poll::Ready(_) => Wait::Refused(Refusal::Closed),
        }
    }
}
