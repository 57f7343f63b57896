//! `lockhouse serve`

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lockhouse::LockType;
use lockhouse_server::auth::Authority;
use lockhouse_server::{BindError, Config, Lease, Origin, Server, StoreChoice, StoreError, bind};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::{FAILURE, USAGE, complain, duration};

/// Serve locks over WebSockets and HTTP, with a demo page at / and the API described at /openapi.json.
///
/// Offline locks and claims are kept in a database file; the locks of clients are not, but clients reclaim them from a server that
/// was started anew. Only programs on this machine can connect, as there is no authentication.
/// SIGTERM and SIGINT stop granting, wait until no client holds a lock or the drain time has passed, and end the server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse serve
  lockhouse serve --store sqlite:/var/lib/lockhouse/locks.db
  lockhouse serve --store memory: --fresh --listen 127.0.0.1:0
  lockhouse serve --lock-type customer=exclusive-write --lock-type account=exclusive-read
  lockhouse serve --allow-origin https://app.example --allow-origin https://admin.example

Logs go to stderr; RUST_LOG=lockhouse_server=debug shows every session.")]
pub(super) struct Serve {
    /// Where to listen, a loopback address; port 0 means any that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7420", env = "LOCKHOUSE_LISTEN")]
    listen: String,

    /// How long a client that has gone silent keeps its locks, from 500ms to 10m
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = lease)]
    lease: Lease,

    /// Where to keep what outlives the server: sqlite:PATH, or memory: for nothing
    #[arg(long, value_name = "STORE", default_value = "sqlite:lockhouse.db", env = "LOCKHOUSE_STORE")]
    store: StoreChoice,

    /// With memory: no client of an earlier server holds a lock any more, so that there is no need to wait for the length of the lease
    #[arg(long)]
    fresh: bool,

    /// How the records of a kind are locked: read-write (unless told otherwise), exclusive-write (readers take no lock) or exclusive-read;
    /// may be given several times
    #[arg(long = "lock-type", value_name = "KIND=TYPE", value_parser = lock_type)]
    lock_types: Vec<(String, LockType)>,

    /// An origin beyond this machine's whose pages may connect; may be given several times
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    allowed_origins: Vec<Origin>,

    /// How long to wait for locks to be released before the server ends, up to 1h
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = drain)]
    drain: Duration,
}

fn lease(text: &str) -> Result<Lease, String> {
    Lease::new(duration::parse(text)?).map_err(|error| error.to_string())
}

fn lock_type(text: &str) -> Result<(String, LockType), String> {
    let rule = "must be KIND=read-write, KIND=exclusive-write or KIND=exclusive-read";
    let (kind, lock_type) = text.rsplit_once('=').filter(|(kind, _)| !kind.is_empty()).ok_or(rule)?;
    let lock_type = match lock_type {
        "read-write" => LockType::ReadWrite,
        "exclusive-write" => LockType::ExclusiveWrite,
        "exclusive-read" => LockType::ExclusiveRead,
        _ => return Err(rule.to_owned()),
    };
    Ok((kind.to_owned(), lock_type))
}

fn drain(text: &str) -> Result<Duration, String> {
    let length = duration::parse(text)?;
    if length > Duration::from_secs(3600) { Err("draining takes at most 1h".to_owned()) } else { Ok(length) }
}

impl Serve {
    pub(super) fn run(self) -> ExitCode {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        let color = io::stderr().is_terminal();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(color)
            // Where stderr is gone, a log line about that would panic, and nothing would be drained.
            .log_internal_errors(false)
            .with_writer(io::stderr)
            .init();
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                complain(format_args!("cannot start: {error}"));
                return ExitCode::from(FAILURE);
            }
        };
        match runtime.block_on(self.serve()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&error);
                ExitCode::from(error.exit_code())
            }
        }
    }

    async fn serve(self) -> Result<(), Error> {
        // Before anybody is told that the server runs, so that no signal can end it the hard way.
        let stop = stop_signal()?;
        let store = match self.store {
            StoreChoice::Memory { .. } => StoreChoice::Memory { fresh: self.fresh },
            StoreChoice::Sqlite(_) if self.fresh => return Err(Error::Fresh),
            store => store,
        };
        let authority = Authority::default();
        let listener = bind(&self.listen, &authority).await?;
        let config = Config {
            lease: self.lease,
            drain: self.drain,
            authority,
            allowed_origins: self.allowed_origins,
            lock_types: self.lock_types.into_iter().collect(),
        };
        let server = Server::open(config, &store).await?;
        announce(&listener)?;
        Ok(server.serve(listener, stop).await?)
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "--fresh: only with --store memory:, as a database file knows by itself whether there is anything to wait for"
    )]
    Fresh,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Bind(BindError::NotLoopback(_) | BindError::NoAddress(_)) | Self::Fresh => USAGE,
            Self::Bind(BindError::Refused(..)) | Self::Store(_) | Self::Io(_) => FAILURE,
        }
    }
}

fn announce(listener: &TcpListener) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "listening http://{}", listener.local_addr()?)?;
    stdout.flush()
}

fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
