//! Agents of this process.

use std::sync::Arc;

use lockhouse_core::{CLIENT_ID_BYTES, Command, NewAgent, Outcome};

use crate::engine::bucket::Bucket;
use crate::engine::bucket::shared::Shared;
use crate::error::Quota;
use crate::web_locks::backend::Backend;
use crate::web_locks::local_agent::LocalAgent;
use crate::web_locks::locks::LockManager;

/// A requester of locks: about the same as a tab or a worker in a browser.
/// <https://w3c.github.io/web-locks/#agent-integration>
///
/// It lives as long as it is of use: as long as there is this value, a clone of its [`LockManager`], a
/// request or a [`LockGuard`](crate::LockGuard) of it. So a guard holds its lock also if it is all that is
/// left:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let house = lockhouse::House::new();
/// let lock = house.bucket("default").agent("worker-1")?.locks().request("report").await?;
/// assert_eq!(lock.loss(), None);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Agent {
    locks: LockManager,
}

impl Bucket {
    /// A new agent of this process, which has no lease.
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

    /// The agent's handle for requests and queries, which may be cloned.
    pub fn locks(&self) -> &LockManager {
        &self.locks
    }

    /// Terminates the agent, as the end of a tab does: its requests end with
    /// [`AgentEnded`](crate::RequestError::AgentEnded), its locks are lost as
    /// [`Terminated`](crate::Loss::Terminated) and released.
    pub fn end(self) {
        self.locks.backend.end();
    }
}
