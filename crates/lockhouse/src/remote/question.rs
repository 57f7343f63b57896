//! A question whose answer is a snapshot.

use std::future::poll_fn;
use std::sync::Arc;

use crate::error::RequestError;
use crate::remote::session::state::{Shared, State};
use crate::snapshot::Snapshot;

/// A question that is withdrawn when this is dropped.
pub(super) struct Looking {
    shared: Arc<Shared>,
    key: u64,
}

impl Looking {
    pub(super) fn begin(shared: &Arc<Shared>, look: impl FnOnce(&mut State) -> u64) -> Self {
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
