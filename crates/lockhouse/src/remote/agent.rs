//! Agents of a connection.

use std::fmt;
use std::sync::Arc;

use super::session::state::Shared;
use crate::error::RequestError;
use crate::remote::question::Looking;
use crate::snapshot::Snapshot;

/// An agent of a connection. It ends with the last of its handles, requests and guards.
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

impl Drop for RemoteAgent {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAgent").field("agent", &self.agent).finish_non_exhaustive()
    }
}
