//! The handle of a connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::NameBuf;
use tokio::sync::watch;
use tokio::time::timeout;

use super::agent::RemoteAgent;
use super::session::state::{Shared, State};
use super::transport::socket::CLOSE_TIMEOUT;
use super::watch::Watch;
use crate::claims::Claims;
use crate::error::{Quota, RequestError};
use crate::location::BucketLocation;
use crate::owners::Owners;
use crate::remote::http::api::Api;
use crate::remote::question::Looking;
use crate::remote::session::status::ConnectionState;
use crate::snapshot::Snapshot;
use crate::web_locks::agent::Agent;
use crate::web_locks::backend::Backend;

/// A connection to a bucket of a server, which renews itself when it breaks. A connection may carry any
/// number of agents.
///
/// Dropping it leaves its agents at work; the connection is closed when the last of them has gone, too.
pub struct Connection {
    shared: Arc<Shared>,
    bucket: String,
    api: Arc<Api>,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, bucket: String, api: Arc<Api>) -> Self {
        Self { shared, bucket, api }
    }

    /// A new agent. The agent lives until it ends as [`Agent`] says, or the connection is closed; when a
    /// session ends, it goes on in the next, without the locks that it held unless they could be reclaimed.
    ///
    /// # Errors
    ///
    /// [`Quota`] if the label has more than 256 bytes, or the connection as many agents as the server allows.
    /// An agent of a closed connection has ended.
    pub fn agent(&self, client_id: &str) -> Result<Agent, Quota> {
        let agent = self.shared.with(|state| state.join(client_id))?;
        Ok(Agent::with(Backend::Remote(Arc::new(RemoteAgent { shared: self.shared.clone(), agent }))))
    }

    /// The owners of the bucket, which hold offline locks. Owners know no partitions: in all of them the
    /// bucket is the same.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// use lockhouse::{LockType, RecordKind};
    ///
    /// let connection = lockhouse::remote::connect("http://127.0.0.1:7420").bucket("crm").await?;
    /// let customers = RecordKind::new("customer", LockType::ExclusiveWrite);
    /// let ada = connection.owners().open("Ada", Duration::from_secs(1200)).await?;
    /// ada.lock([customers.for_write(4711)]).await?;
    /// # Ok(()) }
    /// ```
    pub fn owners(&self) -> Owners {
        Owners::new(BucketLocation::Remote(self.api.clone()))
    }

    /// The claims and assignments of the bucket. Claims know no partitions: in all of them the bucket is the
    /// same.
    pub fn claims(&self) -> Claims {
        Claims::new(BucketLocation::Remote(self.api.clone()))
    }

    /// The bucket whose locks are meant.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The state of the connection, and its changes.
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.shared.status()
    }

    /// How long the bucket still recovers, by what the server said when the connection was made: after a
    /// restart it grants nothing for so long. Zero otherwise.
    pub fn recovers_for(&self) -> Duration {
        self.shared.with(|state| state.recovers_for())
    }

    /// A snapshot of everything that is held and pending in the bucket, or only of that name.
    ///
    /// The snapshot sees every request that was made over this connection before, and may be out of date by
    /// the time it is read.
    ///
    /// # Errors
    ///
    /// [`RequestError::AgentEnded`] once the connection is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn query(&self, name: Option<&NameBuf>) -> Result<Snapshot, RequestError> {
        Looking::begin(&self.shared, |state| state.look(name.cloned(), false)).answer().await
    }

    /// Snapshots of the bucket, or of that name, as it changes; changes within 100 ms are reported together.
    pub fn watch(&self, name: Option<&NameBuf>) -> Watch {
        Watch { looking: Looking::begin(&self.shared, |state| state.look(name.cloned(), true)) }
    }

    /// Ends every agent of the connection, at the server at once if it can be reached, and closes it. Returns
    /// when that is done, or could not be done within 2 s. Owners and claims stay as they are, but are spoken
    /// for over another connection from now on.
    ///
    /// # Cancel safety
    ///
    /// The connection is closed in any case.
    pub async fn close(self) {
        self.shared.with(State::close);
        let tidied = timeout(CLOSE_TIMEOUT, self.api.close());
        // Traces that are not removed by then end by their TTL.
        _ = tokio::join!(self.shared.finished.cancelled(), tidied);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.with(State::drop_connection);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}
