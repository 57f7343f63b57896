//! An agent of this process.

use std::sync::Arc;
use std::time::SystemTime;

use lockhouse_core::{AgentId, Command, Outcome, Refusal};

use crate::engine::bucket::shared::Shared;
use crate::error::{Quota, RequestError, Unavailable};
use crate::snapshot::{Holder, Snapshot};

/// An agent of this process. It ends with the last of its handles, requests and guards.
#[derive(Debug)]
pub(crate) struct LocalAgent {
    pub(crate) bucket: Arc<Shared>,
    pub(crate) id: AgentId,
}

impl Drop for LocalAgent {
    fn drop(&mut self) {
        self.end();
    }
}

impl LocalAgent {
    pub(crate) fn end(&self) {
        self.bucket.end(self.id);
    }

    pub(crate) async fn query(&self) -> Result<Snapshot, RequestError> {
        if !self.bucket.with(|state| state.is_alive(self.id)) {
            return Err(RequestError::AgentEnded);
        }
        let reply = self.bucket.ask(Command::Snapshot, false, None, |_| {});
        let outcome = self.bucket.await_reply(reply, false).await;
        let Outcome::Snapshot(snapshot) = outcome.map_err(RequestError::unanswered)? else {
            unreachable!("a snapshot is answered with one");
        };
        Ok(Snapshot::from_core(snapshot, &|at| self.wall(at)))
    }

    pub(crate) fn wall(&self, at: lockhouse_core::Instant) -> SystemTime {
        self.bucket.wall(at)
    }

    #[cold]
    pub(crate) fn refused(&self, refusal: Refusal) -> RequestError {
        match refusal {
            Refusal::Unavailable { holders, queued } => {
                let holders =
                    holders.into_iter().map(|holder| Holder::new(holder, &|at| self.wall(at))).collect();
                RequestError::Unavailable(Unavailable { holders, queued })
            }
            Refusal::UnknownAgent => RequestError::AgentEnded,
            Refusal::Closed => self.bucket.why_over().map_or(RequestError::Closed, RequestError::NoStore),
            quota => RequestError::Quota(Quota::of(&quota).expect("every other refusal is about a bound")),
        }
    }
}
