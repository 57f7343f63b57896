//! The server as a whole: its life from the first connection to the last.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use lockhouse::fleet::NodeError;
use lockhouse::{House, StoreState};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::accept::{Entrance, accept_until};
use super::bind::{BindError, Listener};
use super::drain::drain;
use crate::bounds::{FAILED_FAREWELL_TIMEOUT, FAREWELL_TIMEOUT};
use crate::config::Config;
use crate::houses::Houses;
use crate::limits::Refused;
use crate::settings::StoreChoice;
use crate::state::AppState;
use crate::store::{OpenStoreError, file_gone, log_left_out, log_outages};

/// A server without its listener: the lock tables, the sessions, and how far it is in its life.
#[derive(Debug)]
pub struct Server {
    pub(super) state: Arc<AppState>,
}

/// Serves until `shutdown` is ready; then stops granting, waits until nothing is held or the drain time has
/// passed, closes all connections and returns.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = lockhouse_server::Config::default();
/// let listener = lockhouse_server::bind("127.0.0.1:0", &config.authority).await?;
/// println!("listening on {}", listener.local_addr()?);
/// let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
/// lockhouse_server::serve(listener, config, stop).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// If the listener is not on a loopback address though there is no authentication, or is of no use.
pub async fn serve(
    listener: impl Into<Listener>,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    Server::new(config).serve(listener, shutdown).await
}

/// All routes of a server.
#[expect(clippy::needless_pass_by_value, reason = "the routes are what is left of the server")]
pub fn router(server: Arc<Server>) -> Router {
    crate::router::router(server.state.clone())
}

impl Server {
    /// A server without durable state, which begins with empty tables.
    pub fn new(config: Config) -> Arc<Self> {
        Self::over(AppState::empty(config))
    }

    /// A server over a house of one's own, whose bounds should be those of a server. If it has
    /// [`MemoryBudget`](lockhouse::MemoryBudget), they become as large as
    /// [`limits.table_mib_per_tenant`](crate::LimitSettings::table_mib_per_tenant) says, now and at each
    /// reload.
    pub fn of(config: Config, house: House) -> Arc<Self> {
        Self::over(AppState::new(config, house))
    }

    /// A server whose state is durable in a store, and which begins with the state stored there.
    ///
    /// # Errors
    ///
    /// [`OpenStoreError`].
    pub async fn open(config: Config, store: &StoreChoice) -> Result<Arc<Self>, OpenStoreError> {
        let (houses, file) = store.open(&config).await?;
        Ok(Self::over(AppState::over_file(config, houses, file, store.operator()?)))
    }

    fn over(state: Arc<AppState>) -> Arc<Self> {
        Arc::new(Self { state })
    }

    /// As [`serve`].
    ///
    /// # Errors
    ///
    /// As [`serve`].
    pub async fn serve(
        self: Arc<Self>,
        listener: impl Into<Listener>,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (state, listener) = (&self.state, listener.into());
        for address in listener.local_addrs()? {
            if state.authority().is_open() && !address.ip().is_loopback() {
                let error = BindError::NotLoopback(address.to_string());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
            }
        }
        let stop = CancellationToken::new();
        let entrance = Entrance::of_clients(state);
        let accepting = listener.sockets().map(|socket| accept_until(&entrance, socket, stop.clone()));
        let accepting = join_all(accepting);
        let living = async {
            let end = tokio::select! {
                () = shutdown => End::Store(self.stop().await),
                end = ended(&state.houses) => end,
                gone = file_gone(state.file.clone()) => End::Store(StoreState::Failed(gone)),
            };
            state.close_connections();
            stop.cancel();
            end
        };
        let served = async { tokio::join!(accepting, living).1 };
        let end = tokio::select! {
            end = served => end,
            never = state.warm_buckets.forget_in_time() => match never {},
            never = state.limiter.refusals.log() => match never {},
            never = state.audit.log_counts_in_time() => match never {},
            never = log_outages(&state.houses) => match never {},
            never = log_left_out(&state.houses) => match never {},
        };
        state.audit.log_counts(Duration::ZERO);
        drop(listener);
        state.tasks.close();
        // Farewells are bounded in time; this bounds the sum of all that may be left.
        let patience = match end {
            End::Store(StoreState::Failed(_)) | End::Node(_) => FAILED_FAREWELL_TIMEOUT,
            End::Store(_) => 2 * FAREWELL_TIMEOUT,
        };
        if timeout(patience, state.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = state.tasks.len(), "stopped with connections still open");
        }
        match end {
            End::Store(StoreState::Fenced) => {
                Err(io::Error::other("another process has taken the store over"))
            }
            End::Store(StoreState::Failed(fatal)) => Err(io::Error::other(fatal)),
            End::Store(_) => Ok(()),
            End::Node(why) => Err(io::Error::other(why)),
        }
    }

    /// Serves `/metrics`, `/livez` and `/readyz` for every program that reaches that listener, without
    /// authentication and TLS, beside [`serve`](Self::serve).
    ///
    /// # Cancel safety
    ///
    /// Connections end with it.
    pub async fn serve_metrics(&self, listener: Listener) {
        let (entrance, stop) = (Entrance::of_metrics(&self.state), CancellationToken::new());
        let _stops = stop.clone().drop_guard();
        join_all(listener.sockets().map(|socket| accept_until(&entrance, socket, stop.clone()))).await;
    }

    /// The end of a server whose [routes](router) another HTTP server serves: stops granting, waits until
    /// nothing is held or the drain time has passed, ends the house and closes all WebSockets.
    pub async fn stop(&self) -> StoreState {
        let end = drain(&self.state).await;
        self.state.close_connections();
        end
    }

    /// The number of sessions, with and without a connection.
    pub fn session_count(&self) -> usize {
        self.state.sessions.len()
    }

    /// Whether there is a session with that id, with or without a connection.
    pub fn has_session(&self, id: &str) -> bool {
        self.state.sessions.has(id)
    }

    /// The number of connections.
    pub fn connection_count(&self) -> usize {
        self.state.limiter.connections()
    }

    /// The count of that refusal since the start.
    pub fn refused(&self, kind: Refused) -> u64 {
        self.state.limiter.refusals.of(kind)
    }

    /// The lock tables: one house, or those that a node of a fleet has at the moment.
    pub fn houses(&self) -> Vec<House> {
        self.state.houses.all()
    }
}

/// How a server has ended.
enum End {
    Store(StoreState),
    /// It cannot be a node any more.
    Node(NodeError),
}

/// Waits for an end that comes by itself.
async fn ended(houses: &Houses) -> End {
    match houses {
        Houses::One(house) => End::Store(house.ended().await),
        Houses::Fleet { cluster, .. } => End::Node(cluster.node.failed().await),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::pin::pin;
    use std::task::Poll;

    use futures_util::poll;
    use lockhouse::Options;
    use lockhouse::remote::connect;
    use lockhouse::store::MemoryStore;
    use tokio::net::TcpListener;

    use super::*;
    use crate::Lease;
    use crate::auth::Authority;
    use crate::server::bind;

    #[tokio::test]
    async fn the_sessions_of_a_server_end_only_once_nothing_is_granted_any_more() {
        let server = Server::new(Config::default());
        let bucket = server.houses()[0].bucket("default");
        let agent = |label| bucket.agent(label).unwrap();
        let held = agent("a").locks().request("n").await.unwrap();
        let mut waiting = pin!(agent("b").locks().request("n").into_future());
        assert!(poll!(&mut waiting).is_pending());
        server.state.close_connections();
        drop(held);
        assert!(!matches!(poll!(&mut waiting), Poll::Ready(Ok(_))));
    }

    #[tokio::test]
    async fn a_server_whose_store_is_taken_over_ends_as_if_it_had_died() {
        let store = MemoryStore::new().unwrap();
        let lease = Duration::from_secs(3);
        let config = || Config { lease: Lease::new(lease).unwrap(), ..Config::default() };
        let open = || {
            House::open(
                Arc::new(store.reopen()),
                Options::new().limits(crate::limits::BUCKET_LIMITS).lease(lease),
            )
        };
        let listener = bind("127.0.0.1:0", &Authority::default()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::of(config(), open().await.unwrap());
        let house = server.houses().remove(0);
        let serving = tokio::spawn(server.serve(listener, std::future::pending()));
        let connection = connect(format!("http://{address}")).await.unwrap();
        let agent = connection.agent("a").unwrap();
        let held = agent.locks().request("n").await.unwrap();
        let token = held.fencing_token();

        let next = Server::of(config(), open().await.unwrap());
        // The first server learns of it with the next change that it has to store.
        house.bucket("default").owners().open("Ada", Duration::from_secs(60)).await.unwrap_err();
        let end = serving.await.unwrap().unwrap_err();
        assert_eq!(end.to_string(), "another process has taken the store over");
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(next.serve(listener, std::future::pending()));
        // The lock is granted once the second server has recovered, by which time the former lock has been
        // reclaimed.
        let other = agent.locks().request("m").await.unwrap();
        assert_eq!((held.loss(), held.fencing_token()), (None, token));
        assert!(other.fencing_token() > token);
    }
}
