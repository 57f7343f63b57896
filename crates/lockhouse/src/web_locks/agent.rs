//! Agents of this process.

use std::sync::Arc;

use lockhouse_core::{AgentId, CLIENT_ID_BYTES, Command, NewAgent, Outcome};

use crate::engine::bucket::Shared;
use crate::error::Quota;
use crate::web_locks::locks::{Backend, LockManager};

/// Somebody who asks for locks: about what a tab or a worker is in a browser. Dropping it terminates it: its requests end, its
/// locks are released. <https://w3c.github.io/web-locks/#agent-integration>
#[derive(Debug)]
pub struct Agent {
    locks: LockManager,
}

/// An agent of this process, as its requests and guards see it.
#[derive(Debug)]
pub(crate) struct LocalAgent {
    pub(crate) bucket: Arc<Shared>,
    pub(crate) id: AgentId,
}

impl Agent {
    pub(crate) fn join(bucket: Arc<Shared>, client_id: &str) -> Result<Self, Quota> {
        if client_id.len() > CLIENT_ID_BYTES {
            return Err(Quota::bytes("client_id", client_id.len(), CLIENT_ID_BYTES));
        }
        let id = match bucket.handle(Command::Join(NewAgent::new(client_id))) {
            Outcome::Joined(id) => id,
            Outcome::Refused(refusal) => {
                return Err(Quota::of(&refusal).expect("joining is refused for quota only"));
            }
            outcome => unreachable!("joining cannot end in {outcome:?}"),
        };
        Ok(Self::with(Backend::Local(Arc::new(LocalAgent { bucket, id }))))
    }

    pub(crate) fn with(backend: Backend) -> Self {
        Self { locks: LockManager { backend } }
    }

    /// Its handle for requests and queries, which may be cloned; it is of no more use once the agent has ended.
    pub fn locks(&self) -> &LockManager {
        &self.locks
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.locks.backend.end();
    }
}
