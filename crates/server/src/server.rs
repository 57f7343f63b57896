//! The server as a whole: its life from the first connection to the last.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use lockhouse::{House, StoreState};
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{Denied, Initiator, check_host, check_origin};
use crate::audit::Audit;
use crate::auth::{self, Authority};
use crate::bounds::FAREWELL_TIMEOUT;
use crate::config::Config;
use crate::connection;
use crate::idempotency::Answers;
use crate::limits::house_options;
use crate::limits::{Bounds, Refused};
use crate::random::random_hex;
use crate::recent::Recent;
use crate::router::Routes;
use crate::session::Registry;
use crate::settings::StoreChoice;
use crate::settings::{LimitOutOfRange, LimitSettings};
use crate::store::{Operator, StoreError, tell_of_outages};

/// How often a stopping server looks whether locks are still held.
const DRAIN_CHECK: Duration = Duration::from_millis(50);

/// A server without its listener: the lock tables, the sessions, and how far it is in its life.
#[derive(Debug)]
pub struct Server {
    pub(crate) config: Config,
    authority: watch::Sender<Arc<Authority>>,
    pub(crate) house: House,
    /// Who may make a backup.
    pub(crate) operator: Option<Operator>,
    /// Names this life of the server.
    pub(crate) epoch: String,
    pub(crate) sessions: Registry,
    pub(crate) tasks: TaskTracker,
    /// What requests with an `Idempotency-Key` were answered.
    pub(crate) answers: Arc<Answers>,
    /// What calls have asked for lately.
    pub(crate) recent: Recent,
    /// Who was denied what.
    pub(crate) audit: Arc<Audit>,
    /// Who may have how much.
    pub(crate) bounds: Arc<Bounds>,
    phase: watch::Sender<Phase>,
}

/// How far a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It grants.
    Running,
    /// It grants nothing any more and waits for locks to be released.
    Draining,
    /// It closes every connection.
    Stopping,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Others could connect, and there is no authentication.
    #[error(
        "listen address {0}: only loopback addresses such as 127.0.0.1:7420 are allowed, as there is no authentication; \
         lockhouse key new makes a key"
    )]
    NotLoopback(String),
    /// The address means nothing.
    #[error("listen address {0}: must be HOST:PORT, such as 127.0.0.1:7420")]
    NoAddress(String),
    /// The operating system refuses.
    #[error("cannot listen on {0}: {1}{advice}", advice = advice(.1))]
    Refused(String, #[source] io::Error),
}

/// What to do where the system lets nobody listen.
fn advice(refused: &io::Error) -> &'static str {
    match refused.kind() {
        io::ErrorKind::AddrInUse => {
            "; another process listens there: end it, or choose another address with --listen"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need a privilege: choose a higher one with --listen, or give the process CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: choose one of its own with --listen"
        }
        _ => "",
    }
}

/// New settings would begin authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "authentication begins only with a new start of the server: there must be no keys, issuers and certificates, as before"
)]
pub struct AuthenticationStays;

/// Why a running server does not take new settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// Those of authentication.
    #[error(transparent)]
    Authentication(#[from] AuthenticationStays),
    /// Those of limits.
    #[error(transparent)]
    Limits(#[from] LimitOutOfRange),
}

/// Listens on `HOST:PORT`, which must be a loopback address unless there is authentication; port 0 means any that is free.
///
/// # Errors
///
/// [`BindError`].
pub async fn bind(listen: &str, authority: &Authority) -> Result<TcpListener, BindError> {
    let addresses: Vec<SocketAddr> = match lookup_host(listen).await {
        Ok(addresses) => addresses.collect(),
        Err(_) => return Err(BindError::NoAddress(listen.to_owned())),
    };
    if authority.is_open() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err(BindError::NotLoopback(listen.to_owned()));
    }
    TcpListener::bind(&*addresses).await.map_err(|error| BindError::Refused(listen.to_owned(), error))
}

/// Serves until `shutdown` is ready; then stops granting, waits until nothing is held or the drain time has passed, closes all
/// connections and returns.
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
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    Server::new(config).serve(listener, shutdown).await
}

impl Server {
    /// A server that keeps nothing, and begins with empty tables.
    pub fn new(config: Config) -> Arc<Self> {
        let house = House::with_options(&house_options(&config.limits));
        Self::over(config, house, None)
    }

    /// A server over a house of one's own, whose bounds should be those of a server. If it has [`Rooms`](lockhouse::Rooms), they become as large as
    /// [`limits.table_mib_per_tenant`](LimitSettings::table_mib_per_tenant) says, now and at each reload.
    pub fn of(config: Config, house: House) -> Arc<Self> {
        Self::over(config, house, None)
    }

    /// A server whose state is kept in a store, and that begins with what is kept there.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn open(config: Config, store: &StoreChoice) -> Result<Arc<Self>, StoreError> {
        let house = store.open(&config).await?;
        Ok(Self::over(config, house, store.operator()?))
    }

    fn over(config: Config, house: House, operator: Option<Operator>) -> Arc<Self> {
        let bounds = Arc::new(Bounds::new(config.limits));
        if let Some(rooms) = house.rooms() {
            rooms.set(config.limits.table_bytes());
        }
        Arc::new(Self {
            authority: watch::Sender::new(Arc::new(config.authority.clone())),
            config,
            house,
            operator,
            epoch: random_hex::<16>(),
            sessions: Registry::default(),
            tasks: TaskTracker::new(),
            answers: Arc::default(),
            recent: Recent::default(),
            audit: Arc::new(Audit::new(bounds.clone())),
            bounds,
            phase: watch::Sender::new(Phase::Running),
        })
    }

    /// As [`serve`].
    ///
    /// # Errors
    ///
    /// As [`serve`].
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let address = listener.local_addr()?;
        if self.authority().is_open() && !address.ip().is_loopback() {
            let error = BindError::NotLoopback(address.to_string());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let stop = CancellationToken::new();
        let accepting = self.accept_until(&listener, stop.clone());
        let living = async {
            let end = tokio::select! {
                () = shutdown => self.drain().await,
                state = self.house.ended() => state,
            };
            self.close_connections();
            stop.cancel();
            end
        };
        let served = async { tokio::join!(accepting, living).1 };
        let end = tokio::select! {
            end = served => end,
            never = self.recent.forget_in_time() => match never {},
            never = self.bounds.refusals.tell() => match never {},
            never = self.audit.tell_in_time() => match never {},
            never = tell_of_outages(&self.house) => match never {},
        };
        self.audit.tell(Duration::ZERO);
        drop(listener);
        self.tasks.close();
        // Farewells are bounded in time; this bounds the sum of all that may be left.
        if timeout(2 * FAREWELL_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.tasks.len(), "stopped with connections still open");
        }
        match end {
            StoreState::Fenced => Err(io::Error::other("another process has taken the store over")),
            StoreState::Failed(fatal) => Err(io::Error::other(fatal)),
            _ => Ok(()),
        }
    }

    /// How many sessions there are, with and without a connection.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// How many connections there are.
    pub fn connection_count(&self) -> usize {
        self.bounds.connections()
    }

    /// How often that has occurred since the start.
    pub fn refused(&self, kind: Refused) -> u64 {
        self.bounds.refusals.of(kind)
    }

    /// Takes other settings over, each as [`Self::reload_auth`] and [`Self::reload_limits`] do.
    ///
    /// # Errors
    ///
    /// Theirs; then nothing is taken over.
    pub fn reload(&self, authority: Authority, limits: LimitSettings) -> Result<(), NotReloaded> {
        limits.check()?;
        self.reload_auth(authority)?;
        self.take_over(limits);
        Ok(())
    }

    /// Takes other bounds over, as far as a running server can; see [`LimitSetting::is_reloadable`](crate::LimitSetting::is_reloadable).
    ///
    /// # Errors
    ///
    /// [`LimitOutOfRange`]; then none is taken over.
    pub fn reload_limits(&self, limits: LimitSettings) -> Result<(), LimitOutOfRange> {
        limits.check()?;
        self.take_over(limits);
        Ok(())
    }

    fn take_over(&self, limits: LimitSettings) {
        if let Some(rooms) = self.house.rooms() {
            rooms.set(limits.table_bytes());
        }
        self.bounds.reload(limits);
    }

    /// The lock tables.
    pub fn house(&self) -> &House {
        &self.house
    }

    /// Judges by that from now on. Sessions whose credential is not taken any more, or may do less than before, end at once, their locks with them;
    /// each later call is judged anew. Where the last key, issuer and certificate is gone, nobody is admitted.
    ///
    /// # Errors
    ///
    /// [`AuthenticationStays`]: whoever was let in without a credential would be kept out.
    pub fn reload_auth(&self, authority: Authority) -> Result<(), AuthenticationStays> {
        let authority = match (self.authority().is_open(), authority.is_open()) {
            (true, false) => return Err(AuthenticationStays),
            (false, true) => {
                tracing::warn!(
                    "there are no keys, issuers and certificates any more: nobody is admitted until there are, and the next start is one without authentication, on loopback addresses only"
                );
                Authority::shut()
            }
            _ => authority,
        };
        self.authority.send_replace(Arc::new(authority));
        Ok(())
    }

    /// As [`reload_auth`](Self::reload_auth), by settings of which something else cannot be taken: whoever is gone from them is gone, and an issuer whose
    /// keys cannot be had stays as it was. Whether they were taken; without authentication there is nothing to be taken from anybody.
    pub fn renew_auth(&self, settings: &auth::Settings) -> bool {
        let former = self.authority();
        let next = former.renewed(settings).ok().filter(|_| !former.is_open());
        next.is_some_and(|next| self.reload_auth(next).is_ok())
    }

    /// Has all sessions judged anew, as something has changed that decides on them: the CAs of client certificates, once [`Tls`](crate::Tls) has loaded others.
    pub fn judge_anew(&self) {
        self.authority.send_modify(|_| {});
    }

    /// Who may do what at present.
    pub(crate) fn authority(&self) -> Arc<Authority> {
        self.authority.borrow().clone()
    }

    pub(crate) fn authorities(&self) -> watch::Receiver<Arc<Authority>> {
        self.authority.subscribe()
    }

    /// Without authentication the `Host` keeps away pages that were given this machine's address under a name of their own. Where there is one, they have no
    /// credential, and the server may have any name.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Denied> {
        if self.authority().is_open() { check_host(headers, &self.config.allowed_origins) } else { Ok(()) }
    }

    pub(crate) fn check_place(&self, headers: &HeaderMap) -> Result<(), Denied> {
        self.check_host(headers)?;
        check_origin(headers, &self.config.allowed_origins)
    }

    /// What sent a request with this head.
    pub(crate) fn initiator(&self, headers: &HeaderMap) -> Initiator {
        Initiator::of(headers, self.config.tls.is_some())
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    async fn accept_until(self: &Arc<Self>, listener: &TcpListener, stop: CancellationToken) {
        let routes = Routes::new(self.clone());
        let refusing = Arc::new(Semaphore::new(REFUSED_AT_ONCE));
        loop {
            let (stream, from) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Such as no free file descriptor: others have to go first.
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
                () = stop.cancelled() => return,
            };
            let (bounds, stop) = (self.bounds.clone(), stop.clone());
            match bounds.admit(from.ip()) {
                Ok(seat) => {
                    let (routes, tls) = (routes.clone(), self.config.tls.clone());
                    self.tasks.spawn(connection::serve(stream, tls, routes, seat, bounds, stop));
                }
                // A handshake for a refusal would be what there is no room for.
                Err(why) if self.config.tls.is_some() => {
                    tracing::debug!(from = %from.ip(), %why, "a connection is refused");
                }
                // Whoever is refused is told why, unless too many are at once.
                Err(why) => {
                    let Ok(permit) = refusing.clone().try_acquire_owned() else { continue };
                    self.tasks.spawn(async move {
                        tracing::debug!(from = %from.ip(), %why, "a connection is refused");
                        connection::refuse(stream, why).await;
                        drop(permit);
                    });
                }
            }
        }
    }

    /// The step to [`Phase::Draining`]. A bucket that comes after it is closed by the session that it is made for.
    pub(crate) fn stop_granting(&self) {
        self.phase.send_replace(Phase::Draining);
        self.house.buckets().iter().for_each(lockhouse::Bucket::close);
    }

    /// Ends the house, too: whether it was a clean stop has to be known before the sessions end, and the web locks with them that their
    /// clients still believe in.
    async fn drain(&self) -> StoreState {
        let patience = Instant::now() + self.config.drain.max(LEAST_DRAIN);
        tracing::info!(drain = ?self.config.drain, "stopping: nothing is granted any more");
        self.stop_granting();
        let released = async {
            while self.house.buckets().iter().any(lockhouse::Bucket::is_held_far_away) {
                sleep(DRAIN_CHECK).await;
            }
        };
        if timeout(self.config.drain, released).await.is_err() {
            tracing::warn!(
                "stopped while web locks were held; their holders can reclaim them from the next server"
            );
        }
        self.recent.forget_all();
        self.close_house(patience).await
    }

    /// Waits for the store as long as it works, and as long as there is patience where it refuses: what it has not kept was told to nobody.
    async fn close_house(&self, patience: Instant) -> StoreState {
        let mut closed = pin!(self.house.close());
        loop {
            if let Ok(state) = timeout(DRAIN_CHECK, &mut closed).await {
                return state;
            }
            if Instant::now() >= patience
                && let StoreState::Unavailable { why, .. } = self.house.store_state()
            {
                tracing::warn!(
                    "stopped while nothing can be kept ({why}): what waited for that is given up, and was told to nobody"
                );
                return StoreState::Closed { clean: false };
            }
        }
    }

    /// The step to [`Phase::Stopping`].
    pub(crate) fn close_connections(&self) {
        self.phase.send_replace(Phase::Stopping);
    }
}

/// A store that refuses is given so long from the beginning of the end at least.
const LEAST_DRAIN: Duration = Duration::from_secs(1);

/// Connections at once that are told why they are refused.
const REFUSED_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use lockhouse::Options;
    use lockhouse::remote::connect;
    use lockhouse::store::MemoryStore;

    use super::*;
    use crate::Lease;

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
        let server = Server::over(config(), open().await.unwrap(), None);
        let house = server.house().clone();
        let serving = tokio::spawn(server.serve(listener, std::future::pending()));
        let connection = connect(format!("http://{address}")).await.unwrap();
        let agent = connection.agent("a").unwrap();
        let held = agent.locks().request("n").await.unwrap();
        let token = held.fencing_token();

        let next = Server::over(config(), open().await.unwrap(), None);
        // The first one hears of it with the next thing that it has to keep.
        house.bucket("default").owners().open("Ada", Duration::from_secs(60)).await.unwrap_err();
        let end = serving.await.unwrap().unwrap_err();
        assert_eq!(end.to_string(), "another process has taken the store over");
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(next.serve(listener, std::future::pending()));
        // Granted once the second one has recovered, by which time the lock of before has been reclaimed.
        let other = agent.locks().request("m").await.unwrap();
        assert_eq!((held.loss(), held.fencing_token()), (None, token));
        assert!(other.fencing_token() > token);
    }
}
