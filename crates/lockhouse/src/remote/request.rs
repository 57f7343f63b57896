//! A request of an agent of a connection, and the lock that it becomes.

use std::sync::Arc;
use std::task::{Context, Poll};

use lockhouse_core::{Acquire, FencingToken, NameBuf};

use super::agent::RemoteAgent;
use super::session::requests::NewAsk;
use crate::error::RequestError;
use crate::remote::hold::RemoteHold;
use crate::web_locks::guard::LockGuard;
use crate::web_locks::options::{RequestOptions, WaitLimits};
use crate::whole_millis::whole_millis;

/// The state of its future.
#[derive(Debug)]
pub(crate) struct RemoteRequest {
    agent: Arc<RemoteAgent>,
    name: NameBuf,
    acquire: Acquire,
    options: Box<RequestOptions>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    New,
    Waiting {
        /// Withdraws the request when it is dropped; releases the lock if that was granted at that very
        /// moment.
        hold: RemoteHold,
        limits: Option<WaitLimits>,
    },
    Over,
}

impl RemoteRequest {
    pub(crate) fn new(
        agent: Arc<RemoteAgent>,
        name: NameBuf,
        acquire: Acquire,
        options: Box<RequestOptions>,
    ) -> Self {
        Self { agent, name, acquire, options, stage: Stage::New }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<LockGuard, RequestError>> {
        if matches!(self.stage, Stage::New) {
            match self.make() {
                Ok(hold) => self.stage = Stage::Waiting { hold, limits: WaitLimits::new(&mut self.options) },
                Err(error) => {
                    self.stage = Stage::Over;
                    return Poll::Ready(Err(error));
                }
            }
        }
        let result = self.poll_waiting(context)?;
        result.map(|token| match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Waiting { hold, .. } => {
                Ok(LockGuard::remote(hold, token, self.name.clone(), self.acquire.mode()))
            }
            Stage::New | Stage::Over => unreachable!("only a request that waits is granted"),
        })
    }

    fn make(&mut self) -> Result<RemoteHold, RequestError> {
        // The token was checked before, but the future may have lain about since.
        if self.options.is_aborted() {
            return Err(RequestError::Aborted);
        }
        let ask = NewAsk {
            name: self.name.clone(),
            acquire: self.acquire,
            metadata: self.options.metadata.take(),
            max_hold_ms: self.options.max_hold.map(whole_millis),
        };
        let RemoteAgent { shared, agent } = &*self.agent;
        let id = shared.with(|state| state.request(*agent, ask))?;
        Ok(RemoteHold { agent: self.agent.clone(), id })
    }

    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Result<FencingToken, RequestError>> {
        let Stage::Waiting { hold, limits } = &mut self.stage else { panic!("polled after completion") };
        let over = limits.as_mut().and_then(|limits| limits.poll(context));
        let granted = match over {
            // An abort wins until the lock has been handed over; a timeout loses against a grant.
            Some(RequestError::Aborted) => Poll::Pending,
            _ => hold.agent.shared.with(|state| state.poll_grant(hold.id, context.waker())),
        };
        let error = match (granted, over) {
            (Poll::Ready(Ok(token)), _) => return Poll::Ready(Ok(token)),
            (Poll::Pending, None) => return Poll::Pending,
            (Poll::Ready(Err(error)), _) | (Poll::Pending, Some(error)) => error,
        };
        self.stage = Stage::Over;
        Poll::Ready(Err(error))
    }
}
