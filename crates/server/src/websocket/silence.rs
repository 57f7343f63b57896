//! The silence of a node whose last commit was confirmed too long ago: by the time that a frame arrives,
//! another node may have its slots.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockhouse::fleet::SlotLease;

/// Whether frames may be handed to a socket.
pub(super) struct Silence {
    lease: Arc<SlotLease>,
    /// Runs while nothing may be said.
    ends: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Silence {
    pub(super) fn new(lease: Arc<SlotLease>) -> Self {
        Self { lease, ends: None }
    }

    /// Whether nothing may be said now.
    pub(super) fn holds(&self) -> bool {
        self.lease.is_mute()
    }

    /// Ready if something may be said now, and otherwise once that is so.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.lease.is_mute() {
            let lease = self.lease.clone();
            let ends = self.ends.get_or_insert_with(|| Box::pin(async move { lease.unmuted().await }));
            if ends.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.ends = None;
        }
        self.ends = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Silence").field("lease", &self.lease).finish_non_exhaustive()
    }
}
