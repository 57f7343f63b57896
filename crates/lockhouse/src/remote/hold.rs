//! A request or lock at the server.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::loss::Loss;
use crate::remote::agent::RemoteAgent;

/// A request or lock at the server: dropping it withdraws the one and releases the other. The drop only
/// changes the state; the session's task sends the change to the server.
pub(crate) struct RemoteHold {
    /// Lives as long as this.
    pub(super) agent: Arc<RemoteAgent>,
    pub(super) id: u64,
}

impl RemoteHold {
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.agent.shared.with(|state| state.loss(self.id))
    }

    pub(crate) async fn lost(&self) -> Loss {
        loop {
            // Registered under the mutex, so that no loss can pass unheard between the look and the wait.
            let heard = self.agent.shared.with(|state| state.listen(self.id).map(Notify::notified_owned));
            match heard {
                Ok(heard) => heard.await,
                Err(loss) => return loss,
            }
        }
    }

    /// Releases the lock and waits for the answer.
    pub(crate) async fn release(self) -> Result<(), Loss> {
        self.agent.shared.with(|state| state.begin_release(self.id));
        poll_fn(|context| self.agent.shared.with(|state| state.poll_released(self.id, context.waker()))).await
    }
}

impl Drop for RemoteHold {
    fn drop(&mut self) {
        self.agent.shared.with(|state| state.forget(self.id));
    }
}

impl fmt::Debug for RemoteHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteHold").field("id", &self.id).finish_non_exhaustive()
    }
}
