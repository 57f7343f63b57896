//! Agents of this process.

use std::sync::Arc;

use lockhouse_core::{CLIENT_ID_BYTES, Command, NewAgent, Outcome};

use crate::engine::bucket::Bucket;
use crate::engine::bucket::shared::Shared;
use crate::error::Quota;
use crate::web_locks::backend::Backend;
use crate::web_locks::local_agent::LocalAgent;
use crate::web_locks::locks::LockManager;

/// A requester of locks: about the same as a tab or a worker in a browser. Dropping it terminates it: its
/// requests end, its locks are released. <https://w3c.github.io/web-locks/#agent-integration>
#[derive(Debug)]
pub struct Agent {
    locks: LockManager,
}

impl Bucket {
    /// A new agent of this process. The agent has no lease: it lives until it is dropped.
    ///
    /// # Errors
    ///
    /// [`Quota`] if the bucket has as many agents as its limits allow, or the label has more than 256 bytes.
    pub fn agent(&self, client_id: &str) -> Result<Agent, Quota> {
        Agent::join(self.0.clone(), client_id)
    }
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

    /// The agent's handle for requests and queries, which may be cloned; it is of no more use once the agent
    /// has ended.
    pub fn locks(&self) -> &LockManager {
        &self.locks
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.locks.backend.end();
    }
}
