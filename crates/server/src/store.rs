//! The store for the state that has to outlive a server.

use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::future::pending;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockhouse::fleet::{FleetNode, NodeError, NodeEvent, NodeOptions};
use lockhouse::store::{
    DatabaseFile, Fatal, HistoryBounds, JoinError, MemoryStore, PostgresFleet, PostgresOpenError,
    PostgresOptions, SqliteOpenError, SqliteStore, Store,
};
use lockhouse::{House, MemoryBudget, Options, StoreState};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::bounds::FILE_CHECK;
use crate::cluster::{Cluster, ClusterSecret, NodeClient};
use crate::config::Config;
use crate::houses::Houses;
use crate::limits::{LOG_EVERY, house_options};
use crate::metrics::meters;
use crate::random::random_hex;
use crate::settings::{PostgresUrl, StoreChoice};

/// The proof that a caller may read the database file: a secret in a file beside it, with the same mode.
pub(crate) struct Operator {
    pub(crate) secret: String,
    file: PathBuf,
}

impl Operator {
    /// Draws a secret and leaves it there.
    fn new(database: &Path) -> io::Result<Self> {
        let operator = Self { secret: random_hex::<20>(), file: operator_file(database) };
        // A file may be left from a server that was killed; the database is ours now.
        match fs::remove_file(&operator.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&operator.file)?;
        file.write_all(operator.secret.as_bytes())?;
        Ok(operator)
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // The secret is of no use once the server is gone, and another server may have left its own since.
        if fs::read(&self.file).is_ok_and(|secret| secret == self.secret.as_bytes()) {
            _ = fs::remove_file(&self.file);
        }
    }
}

/// The file with the secret that a backup through the running server needs.
pub fn operator_file(database: &Path) -> PathBuf {
    let mut file = database.as_os_str().to_owned();
    file.push(".operator");
    file.into()
}

/// The reason why a store cannot be used. Each message is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    /// The file cannot be used.
    #[error(transparent)]
    Sqlite(#[from] SqliteOpenError),
    /// The content of the file cannot be used.
    #[error("{}", at_start(.0))]
    House(#[from] lockhouse::OpenError),
    /// PostgreSQL cannot be used.
    #[error(transparent)]
    Postgres(#[from] PostgresOpenError),
    /// The server cannot be a node of the fleet.
    #[error("{setting}{0}", setting = setting_of(.0))]
    Node(#[from] NodeError),
    /// A setting of the fleet cannot be used.
    #[error("{0}")]
    Cluster(String),
    /// The file for operators cannot be written.
    #[error("{} cannot be written ({why}); make its folder writable", .file.display())]
    Operator {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    NoRandomness(String),
}

/// The pause between two lines of the log about a database that is waited for.
const STILL_WAITS: Duration = Duration::from_secs(60);

impl OpenStoreError {
    /// Whether the database may be usable in a while, without a change of the settings.
    fn may_pass(&self) -> bool {
        match self {
            Self::Postgres(error) => error.may_pass(),
            Self::Node(NodeError::Join(JoinError::Unavailable(_))) => true,
            _ => false,
        }
    }
}

/// What a start says of a store that cannot be written: the server does not go on by itself, but ends.
fn at_start(error: &lockhouse::OpenError) -> String {
    let error = error.to_string();
    ["and it goes on by itself", "it is tried again"]
        .iter()
        .fold(error, |error, goes_on| error.replace(goes_on, "then start again"))
}

/// The setting that is at fault, if one is.
fn setting_of(error: &NodeError) -> &'static str {
    match error {
        NodeError::Join(JoinError::LabelInUse(_)) => "cluster.node: ",
        NodeError::AddressInUse { .. } => "cluster.advertise: ",
        NodeError::OtherSecret { .. } => "cluster.secret_file: ",
        NodeError::Join(_) => "",
    }
}

impl StoreChoice {
    /// The proof that operators of the store have to know; the store is opened before.
    pub(crate) fn operator(&self) -> Result<Option<Operator>, OpenStoreError> {
        let Self::Sqlite(path) = self else { return Ok(None) };
        let failed = |why| OpenStoreError::Operator { file: operator_file(path), why };
        Operator::new(path).map(Some).map_err(failed)
    }

    /// The lock tables with the stored state, and the file of it. The log says when that takes long.
    pub(crate) async fn open(
        &self,
        config: &Config,
    ) -> Result<(Houses, Option<DatabaseFile>), OpenStoreError> {
        let mut opening = pin!(self.open_unlogged(config));
        if let Ok(opened) = timeout(config.store_timeout, &mut opening).await {
            return opened;
        }
        tracing::warn!(
            "the store is not open after {:?}; nothing is served until it is, and SIGTERM ends the server",
            config.store_timeout
        );
        opening.await
    }

    async fn open_unlogged(&self, config: &Config) -> Result<(Houses, Option<DatabaseFile>), OpenStoreError> {
        let lease = Duration::from_millis(config.lease.as_millis());
        let budget = MemoryBudget::new(config.limits.table_bytes());
        let meters = meters(&config.metrics);
        let options = house_options(&config.limits, &budget, meters.as_ref(), &config.history);
        let options = options.lease(lease).store_timeout(config.store_timeout);
        let (store, file, options): (Arc<dyn Store>, _, _) = match self {
            Self::Postgres(url) => {
                let cluster = Arc::new(join(url, config, options).await?);
                return Ok((Houses::Fleet { cluster, budget, meters }, None));
            }
            Self::Memory { fresh: true } => return Ok((Houses::One(House::with_options(&options)), None)),
            Self::Memory { fresh: false } => {
                let store =
                    MemoryStore::new().map_err(|error| OpenStoreError::NoRandomness(error.to_string()))?;
                let store = store.keeping(config.history.bounds(MemoryStore::HISTORY_ROWS));
                (Arc::new(store), None, options.always_recover(true).tickets(false))
            }
            Self::Sqlite(path) => {
                let history = config.history.bounds(HistoryBounds::DEFAULT.rows);
                let store = open_file(path.clone(), history).await?;
                let file = store.file().clone();
                (Arc::new(store), Some(file), options)
            }
        };
        Ok((Houses::One(House::open(store, options).await?), file))
    }
}

/// Joins a fleet.
async fn join(url: &PostgresUrl, config: &Config, options: Options) -> Result<Cluster, OpenStoreError> {
    let settings = &config.cluster;
    let wrong = OpenStoreError::Cluster;
    let Some(advertise) = &settings.advertise else {
        let why = "cluster.advertise: is missing; it is the URL at which other nodes reach this one, such as https://a.example:7420";
        return Err(wrong(why.to_owned()));
    };
    let Some(secret_file) = &settings.secret_file else {
        return Err(wrong("cluster.secret_file: is missing; all nodes share one".to_owned()));
    };
    let secret = ClusterSecret::read(secret_file).map_err(wrong)?;
    let label = settings.node.as_deref().unwrap_or(advertise.authority());
    let options = NodeOptions::new(label, &advertise.to_string())
        .secret_mark(secret.mark())
        .timing(settings.timing())
        .houses(options);
    let client = Arc::new(NodeClient::new(settings, secret).map_err(wrong)?);
    let postgres =
        PostgresOptions::default().slots(settings.slots).statement_timeout(settings.statement_timeout());
    let postgres = postgres.history(config.history.bounds(HistoryBounds::DEFAULT.rows));
    let postgres = match &config.store_password_file {
        Some(file) => postgres.password_file(file),
        None => postgres.passfile_of_environment(),
    };
    let wait = settings.wait_for_store;
    let open = async || Ok(PostgresFleet::open(url.as_str(), postgres.clone()).await?);
    let fleet = Arc::new(waiting(wait, open).await?);
    tracing::info!(node = label, advertise = %advertise, "joins the fleet");
    if fleet.waits_for_standby() {
        tracing::info!("commits wait for a synchronous standby: a failover to it loses none of them");
    } else {
        tracing::info!(
            "commits wait for no standby: what is confirmed is on the disk of one server, and a failover may lose the last of it"
        );
    }
    let start = async || Ok(FleetNode::start(fleet.clone(), client.clone(), options.clone()).await?);
    let node = waiting(wait, start).await?;
    Ok(Cluster::new(node, client))
}

/// The first pause, and the longest one, before a database that could not be used is tried again.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Tries until the database can be used, for so long if there is a bound. The log says what is waited for.
async fn waiting<T>(
    bound: Option<Duration>,
    attempt: impl AsyncFn() -> Result<T, OpenStoreError>,
) -> Result<T, OpenStoreError> {
    let (begun, [mut pause, longest]) = (Instant::now(), PAUSES);
    let mut logged: Option<(Instant, String)> = None;
    loop {
        let error = match attempt().await {
            Err(error) if error.may_pass() => error,
            done => {
                if logged.is_some() && done.is_ok() {
                    tracing::info!("the store can be used");
                }
                return done;
            }
        };
        let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
        if left == Some(Duration::ZERO) {
            return Err(error);
        }
        // What is waited for may become known, and times in it grow.
        let reason = error.to_string().replace(|char: char| char.is_ascii_digit(), "");
        if logged.as_ref().is_none_or(|(at, last)| at.elapsed() >= STILL_WAITS || *last != reason) {
            logged = Some((Instant::now(), reason));
            tracing::warn!("waits for the store, and serves nothing until it can be used: {error}");
        }
        sleep(left.map_or(pause, |left| pause.min(left))).await;
        pause = longest.min(pause * 2);
    }
}

/// Logs what becomes of a node. What is expected of a fleet is no warning.
async fn log_node(node: &FleetNode) -> Infallible {
    let mut events = node.events();
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            ago = node.renewed(), if tracing::enabled!(tracing::Level::DEBUG) => {
                let sent = humantime::format_rfc3339_millis(SystemTime::now() - ago);
                tracing::debug!(%sent, "a commit is confirmed");
                continue;
            }
        };
        match event {
            Ok(event) => log_event(&event),
            Err(RecvError::Lagged(missed)) => tracing::info!(missed, "events of slots are left out"),
            // The node lives as long as the server.
            Err(RecvError::Closed) => return pending().await,
        }
    }
}

fn log_event(event: &NodeEvent) {
    match event {
        NodeEvent::Joined => tracing::info!("is a node of the fleet"),
        NodeEvent::Dead => {
            tracing::info!("this node was declared dead, and has lost all its slots; it joins anew");
        }
        NodeEvent::Buried(label) => tracing::info!(node = &**label, "a node is dead: its slots are free"),
        NodeEvent::Taken { slot, recovers: false } => tracing::info!(slot = slot.get(), "slot taken"),
        NodeEvent::Taken { slot, recovers: true } => {
            tracing::info!(slot = slot.get(), "slot taken; what may be held in it from before waits");
        }
        NodeEvent::Released(slot) => tracing::info!(slot = slot.get(), "slot given back"),
        NodeEvent::Lost(slot, why) => tracing::info!(slot = slot.get(), ?why, "slot lost"),
        // Another node was first, or the store is away, which is logged by itself.
        NodeEvent::NotTaken(slot, why) => tracing::debug!(slot = slot.get(), why, "slot not taken"),
        NodeEvent::Unservable(slot, why) => {
            tracing::error!(slot = slot.get(), "a slot cannot be served, and its buckets are away: {why}");
        }
        NodeEvent::HistoryFails(why) => {
            tracing::warn!("the history lacks entries or grows; nothing else depends on it: {why}");
        }
        NodeEvent::StoreAway(why) => {
            tracing::warn!("the store is away: nothing can be kept, and soon nothing may be granted: {why}");
        }
        NodeEvent::StoreBack => tracing::info!("the store is back"),
        // What is added later says nothing here.
        _ => {}
    }
}

/// Opens the file on a thread of its own, for which no runtime waits at its end: the disk may hang.
async fn open_file(path: PathBuf, history: HistoryBounds) -> Result<SqliteStore, SqliteOpenError> {
    let system = |path: &Path, why: &dyn ToString| SqliteOpenError::System {
        path: path.to_owned(),
        why: why.to_string().into(),
    };
    let (reply, opened) = oneshot::channel();
    let file = path.clone();
    // A caller that is gone needs no store.
    let open = move || drop(reply.send(SqliteStore::open_keeping(file, history)));
    let thread = std::thread::Builder::new().name("lockhouse-open".to_owned()).spawn(open);
    thread.map_err(|error| system(&path, &error))?;
    opened.await.unwrap_or_else(|error| Err(system(&path, &error)))
}

/// Comes once the file of the store is gone. Commits find that out by themselves; a server without commits
/// would go on beside the next one.
pub(crate) async fn file_gone(file: Option<DatabaseFile>) -> Fatal {
    let Some(file) = file else { return pending().await };
    let (found, gone) = oneshot::channel();
    // A thread of its own, as in `open_file`.
    let look = move || {
        while !found.is_closed() {
            std::thread::sleep(FILE_CHECK);
            if let Err(fatal) = file.check() {
                // A server that has ended meanwhile does not need it.
                return drop(found.send(fatal));
            }
        }
    };
    match std::thread::Builder::new().name("lockhouse-file".to_owned()).spawn(look) {
        Ok(_) => match gone.await {
            Ok(fatal) => fatal,
            // The thread ends only with its word, or once no caller listens.
            Err(_) => pending().await,
        },
        Err(error) => {
            tracing::error!("the database file is not watched: {error}");
            pending().await
        }
    }
}

/// Logs at intervals how many refusals are in no history, if there were any since.
pub(crate) async fn log_left_out(houses: &Houses) -> Infallible {
    let mut logged = 0;
    loop {
        sleep(LOG_EVERY).await;
        // Of a fleet it falls with each slot that goes.
        let count = houses.all().iter().map(House::refusals_left_out).sum::<u64>();
        warn_of_left_out(count.saturating_sub(logged));
        logged = count;
    }
}

/// So many refusals are in no history.
pub(crate) fn warn_of_left_out(count: u64) {
    if count > 0 {
        tracing::warn!(count, "refusals are in no history: too many different ones came at once");
    }
}

/// Logs when the store becomes unavailable, and when it is available again, and what becomes of the slots of
/// a node. The server logs the end of a house that it ends with.
pub(crate) async fn log_outages(houses: &Houses) -> Infallible {
    let house = match houses {
        Houses::One(house) => house,
        Houses::Fleet { cluster, .. } => return log_node(&cluster.node).await,
    };
    loop {
        if let StoreState::Unavailable { why, .. } = house.unavailable().await {
            tracing::warn!(
                "nothing can be kept at the moment, and new offline locks and claims are refused: {why}"
            );
        }
        match house.serving().await {
            StoreState::Serving => tracing::info!("what has to be kept is kept again"),
            _ => pending().await,
        }
    }
}
