//! A standing question.

use std::fmt;

use crate::error::RequestError;
use crate::remote::question::Looking;
use crate::snapshot::Snapshot;

/// Snapshots of a bucket as it changes. Dropping it ends the watch.
pub struct Watch {
    pub(super) looking: Looking,
}

impl Watch {
    /// The next snapshot: at first the present one, then one after each change. A slow reader gets only the
    /// latest, and after a broken connection one that may say nothing new.
    ///
    /// # Errors
    ///
    /// [`RequestError::AgentEnded`] once the connection is closed, [`RequestError::Quota`] if it has too many
    /// watches. A watch that has failed stays so.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Result<Snapshot, RequestError> {
        self.looking.answer().await
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
