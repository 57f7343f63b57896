//! Agents of a connection.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use super::session::state::Shared;
use crate::error::RequestError;
use crate::snapshot::Snapshot;

/// An agent of a connection, as its requests and guards see it.
#[derive(Clone)]
pub(crate) struct RemoteAgent {
    pub(super) shared: Arc<Shared>,
    pub(super) agent: u64,
}

impl RemoteAgent {
    pub(crate) async fn query(&self) -> Result<Snapshot, RequestError> {
        if !self.shared.with(|state| state.has_agent(self.agent)) {
            return Err(RequestError::AgentEnded);
        }
        Looking::begin(&self.shared, |state| state.look(None, false)).answer().await
    }

    pub(crate) fn end(&self) {
        self.shared.with(|state| state.leave(self.agent));
    }
}

impl fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAgent").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// A question that is withdrawn when this is dropped.
pub(super) struct Looking {
    shared: Arc<Shared>,
    key: u64,
}

impl Looking {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        look: impl FnOnce(&mut super::session::state::State) -> u64,
    ) -> Self {
        Self { shared: shared.clone(), key: shared.with(look) }
    }

    pub(super) async fn answer(&mut self) -> Result<Snapshot, RequestError> {
        poll_fn(|context| self.shared.with(|state| state.poll_look(self.key, context.waker()))).await
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.shared.with(|state| state.forget_look(self.key));
    }
}
