//! `lockhouse doctor`
//!
//! ```text
//!   settings ─▶ configuration ─▶ process, certificates, ports ─▶ disk or postgres, clock ─▶ asked server
//!                                       each adds its checks to the diagnosis
//! ```

mod certificates;
mod clock;
mod configuration;
mod diagnosis;
mod disk;
mod fleet;
mod occupant;
mod ports;
mod postgres;
mod process;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lockhouse_cli::exit::{FAILURE, Failure};
use lockhouse_cli::print::print;
use lockhouse_server::StoreChoice;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::diagnosis::{Diagnosis, Grade};
use self::fleet::AskedServer;
use crate::options::SettingsArgs;

/// How long a single answer of the system, a server or a database is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Say what is wrong with the settings, the disk, the clock, the ports, the store and the certificates of a
/// server, and what to do about it.
///
/// Reads what "lockhouse serve" would use with the same settings, and changes nothing: no file is made, no
/// database is written. Run it as the user of the server, before the first start and whenever something is
/// wrong. A database file that a running server uses is not read; the server itself is asked instead, if it
/// is where the settings say or --server names it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse doctor
  lockhouse doctor --config /etc/lockhouse.toml
  lockhouse doctor --store postgres://lockhouse@db.example/locks --cluster-secret-file secret
  lockhouse doctor --config /etc/lockhouse.toml --server https://a.example:7420 --key-file key --json

Each line is a check: ok, warning or fault, its name, what was found, and behind -> what to do. With
--json: {\"checks\": [{\"grade\", \"name\", \"found\", \"advice\"}], \"warnings\", \"faults\"}.

Exit codes:
   0 no fault; there may be warnings
   1 at least one fault
   2 wrong usage")]
pub(super) struct Doctor {
    #[command(flatten)]
    options: SettingsArgs,

    #[command(flatten)]
    server: AskedServer,

    /// How long the content of a database file may be looked at; what was not looked at by then is a warning
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = lockhouse_wire::parse_duration)]
    read_for: Duration,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) async fn run(self: Box<Self>) -> Result<ExitCode, Failure> {
        let Self { options, server, read_for, json } = *self;
        let mut diagnosis = Diagnosis::default();
        let sources = options.sources();
        if let Some(loaded) = configuration::check(&sources, &mut diagnosis) {
            let settings = &loaded.settings;
            process::check(settings, &mut diagnosis);
            certificates::check(settings, &mut diagnosis);
            ports::check(&loaded, &mut diagnosis).await;
            clock::check(&mut diagnosis).await;
            match settings.store() {
                StoreChoice::Memory { .. } => {
                    diagnosis.ok("store", "memory: keeps nothing, so there is nothing to look at");
                }
                StoreChoice::Sqlite(path) => disk::check(path, read_for, &mut diagnosis).await,
                StoreChoice::Postgres(url) => postgres::check(&url, &loaded, &mut diagnosis).await,
            }
            server.check(settings.is_of_fleet(), &mut diagnosis).await;
        }
        print(json, &diagnosis.json(), || diagnosis.lines())?;
        let faults = diagnosis.count(Grade::Fault);
        Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) })
    }
}

/// The result of work that may hang, on a thread of its own that the end of the process does not wait for;
/// none if it takes longer.
async fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (reply, done) = oneshot::channel();
    let work = move || drop(reply.send(work()));
    std::thread::Builder::new().name("lockhouse-doctor".to_owned()).spawn(work).ok()?;
    timeout(limit, done).await.ok()?.ok()
}

/// Whether others than the owner and the group may read a file; `None` if it is not there.
fn is_open_to_all(file: &Path) -> Option<bool> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    Some(mode & 0o004 != 0)
}
