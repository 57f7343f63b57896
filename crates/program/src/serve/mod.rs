//! `lockhouse serve`

pub(super) mod log;
mod reload;
mod signals;

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Args;
use lockhouse_cli::exit::{FAILURE, USAGE, complain};
use lockhouse_server::{
    BindError, Config, DroppedLines, Files, Listener, LoadedSettings, NodeUrl, OpenStoreError, Reserved,
    Server, SettingsProblem, Sources, StoreChoice, Tls, TlsError, fingerprint, fit_open_files, reserve,
    reserve_metrics,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::reload::Reload;
use self::signals::{Hangup, StopSignals};
use crate::options::{SettingsArgs, load};

/// Serve locks over WebSockets and HTTP, with a dashboard at /dashboard and the API at /openapi.json.
///
/// Offline locks and claims are kept in a database file. Web Locks are not: their holders reclaim them after
/// a restart.
/// Only programs on this machine can connect, unless the settings have keys, issuers or client certificates.
///
/// SIGTERM and SIGINT stop granting and end the server once its changes are durable; a second one ends it at
/// once. The next server waits for the clients that hold Web Locks by then, and grants all else at once. With
/// memory: nothing is left for it, so the server waits until no client holds a lock or the drain time has
/// passed. SIGHUP loads the settings again and applies those that need no
/// restart: keys, certificates and limits. Where it comes because the terminal is gone, it ends the server as
/// SIGTERM does, unless it was ignored at the start, as with nohup.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse serve
  lockhouse serve --config /etc/lockhouse.toml
  lockhouse serve --store sqlite:/var/lib/lockhouse/locks.db
  lockhouse serve --store memory: --fresh --listen 127.0.0.1:0
  lockhouse serve --tls-cert /etc/lockhouse/cert.pem --tls-key /etc/lockhouse/key.pem
  lockhouse serve --lock-type customer=exclusive-write --lock-type account=exclusive-read
  lockhouse serve --allow-origin https://app.example --allow-origin https://admin.example

Each setting can also be given in the file, or in the environment: cert in [tls] is
LOCKHOUSE_TLS_CERT. An option overrides the environment, and the environment overrides the file.
\"lockhouse config show\" prints the settings in force; docs/config.md lists all of them.

Exit codes:
   0 ended by a signal
   1 the system refuses: the port is in use, the store cannot be opened, the database file
     is gone
   2 the settings make no sense, or a file with a certificate or a key cannot be used

Logs go to stderr. RUST_LOG has their levels, such as warn, or info,lockhouse_server=debug to see
every session too; docs/metrics.md says more. Lines of other libraries are shown from level info on.")]
pub(super) struct Serve {
    #[command(flatten)]
    options: SettingsArgs,
}

impl Serve {
    pub(super) fn run(self: Box<Self>) -> ExitCode {
        let sources = self.options.sources();
        let Some(loaded) = load(&sources) else { return ExitCode::from(USAGE) };
        let log = match log::begin(loaded.settings.log.format) {
            Ok(log) => log,
            Err(why) => {
                complain(why);
                return ExitCode::from(USAGE);
            }
        };
        for (name, meant) in sources.misspelt() {
            tracing::warn!("the variable {name} is unknown; is {meant} meant?");
        }
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                complain(format_args!("cannot start: {error}"));
                return ExitCode::from(FAILURE);
            }
        };
        match runtime.block_on(serve(sources, loaded, log.dropped())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let code = error.exit_code();
                // As the faults of the settings themselves: each in a line of its own.
                briefly(move || error.to_string().split('\n').for_each(complain));
                ExitCode::from(code)
            }
        }
    }
}

/// Writes something for people, but waits for them no longer than [`PATIENCE`].
fn briefly(write: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        write();
        // The wait may be over.
        _ = done.send(());
    });
    _ = is_done.recv_timeout(PATIENCE);
}

/// How long a reader of the last lines may stand still.
const PATIENCE: Duration = Duration::from_secs(1);

async fn serve(sources: Sources, loaded: LoadedSettings, dropped_lines: DroppedLines) -> Result<(), Error> {
    // Signals are taken before the server is announced, so that none can end it the hard way.
    let hangup = Hangup::at_start();
    let (stop, now) = (CancellationToken::new(), CancellationToken::new());
    let signals = StopSignals::new()?;
    let hangups = signal(SignalKind::hangup())?;
    tokio::spawn(signals.run(stop.clone(), now.clone()));
    let settings = &loaded.settings;
    // The first file that is wrong is met alone; what is wrong with all of them is reported together. The
    // folder of a self-signed certificate is none of them.
    let with_others = |first: Error| match sources.check() {
        wrong if wrong.is_empty() || settings.tls.self_signed.is_some() => first,
        wrong => Error::Settings(wrong),
    };
    let authority = loaded.authority().map_err(|wrong| with_others(Error::Settings(vec![wrong])))?;
    let tls = Tls::load(&settings.tls).map_err(|wrong| with_others(wrong.into()))?;
    let reserved = reserve(&settings.listen, &authority).await?;
    let metrics = match &settings.metrics.listen {
        Some(listen) => Some(reserve_metrics(listen).await.map_err(Error::Metrics)?),
        None => None,
    };
    let limits = fit_open_files(settings.limits, settings.is_of_fleet());
    let mut config = Config { authority, tls: tls.clone(), limits, dropped_lines, ..settings.config() };
    if config.cluster.advertise.is_none() {
        // Other nodes are on this machine, too, if no other address is named.
        let own = reserved.local_addr()?;
        config.cluster.advertise = own.ip().is_loopback().then(|| NodeUrl::new(tls.is_some(), own));
    }
    let store = settings.store();
    let server = tokio::select! {
        opened = Server::open(config, &store) => opened?,
        () = stop.cancelled() => {
            tracing::info!("stopped before the store was open");
            return Ok(());
        }
    };
    log_place(&store);
    let (listener, metrics) = listen(reserved, metrics, &server).await?;
    announce(&listener, metrics.as_ref(), &tls, settings.tls.self_signed.is_some())?;
    let reload = Reload { sources, started: loaded, server: server.clone(), tls };
    let reload = async {
        reload.run(hangups, hangup).await;
        tracing::info!("the terminal is gone");
        stop.cancel();
        std::future::pending().await
    };
    let watched = server.clone();
    let metrics = async {
        if let Some(metrics) = metrics {
            watched.serve_metrics(metrics).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        served = server.serve(listener, stop.cancelled()) => Ok(served?),
        never = reload => never,
        never = metrics => never,
        () = now.cancelled() => {
            tracing::warn!(
                "stopped at once by a second signal: what waits for the end of the drain is given up"
            );
            Ok(())
        }
    }
}

/// Listens. Where that fails, the server stops, so that the next start waits for nothing that this one has
/// taken.
async fn listen(
    reserved: Reserved,
    metrics: Option<Reserved>,
    server: &Server,
) -> Result<(Listener, Option<Listener>), Error> {
    let listening = || {
        let listener = reserved.listen()?;
        Ok((listener, metrics.map(Reserved::listen).transpose().map_err(Error::Metrics)?))
    };
    let listening = listening();
    if listening.is_err() {
        server.stop().await;
    }
    listening
}

/// Logs where the state of the server is.
fn log_place(store: &StoreChoice) {
    if let StoreChoice::Sqlite(path) = store {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        tracing::info!("the database file is {}", path.display());
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("metrics.listen: {0}")]
    Metrics(BindError),
    #[error(transparent)]
    Store(#[from] OpenStoreError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{}", lines(.0))]
    Settings(Vec<SettingsProblem>),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn lines(problems: &[SettingsProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Bind(BindError::NotLoopback(_) | BindError::NoAddress(_))
            | Self::Metrics(BindError::NotLoopback(_) | BindError::NoAddress(_))
            | Self::Tls(_)
            | Self::Settings(_)
            | Self::Store(OpenStoreError::Cluster(_)) => USAGE,
            Self::Bind(BindError::Refused(..))
            | Self::Metrics(BindError::Refused(..))
            | Self::Store(_)
            | Self::Io(_) => FAILURE,
        }
    }
}

fn announce(
    listener: &Listener,
    metrics: Option<&Listener>,
    tls: &Option<Tls>,
    is_self_signed: bool,
) -> io::Result<()> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let addresses = listener.local_addrs()?;
    let lines = addresses.iter().map(|address| format!("listening {scheme}://{address}\n"));
    let mut text: String = lines.collect();
    for address in metrics.map(Listener::local_addrs).transpose()?.into_iter().flatten() {
        text.push_str(&format!("metrics http://{address}/metrics\n"));
    }
    let files = tls.as_ref().map(Tls::files);
    if let Some(cert) = files.as_ref().and_then(Files::cert).filter(|_| is_self_signed) {
        let sha256 = fingerprint(&fs::read(cert)?).unwrap_or_default();
        let cert = cert.display();
        text.push_str(&format!(
            "self-signed certificate {cert}\nSHA-256 {sha256}\n\
             clients trust it with --ca {cert}, LOCKHOUSE_CA={cert}, in Node with NODE_EXTRA_CA_CERTS={cert}\n"
        ));
    }
    if tls.is_none() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        tracing::warn!(
            "this server speaks no TLS: unless a proxy before it does, others on the network can read keys and secrets"
        );
    }
    // A reader of stdout that stands still, or a stdout that takes nothing, keeps no client waiting.
    thread::spawn(move || {
        let mut stdout = io::stdout();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            let addresses = text.trim_end().replace('\n', ", ");
            tracing::warn!("cannot write to stdout ({error}): {addresses}");
        }
    });
    Ok(())
}
