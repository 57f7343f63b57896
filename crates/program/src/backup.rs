//! `lockhouse backup` and `lockhouse restore`

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use lockhouse::store::{HighestNumbers, PostgresStore, restore};
use lockhouse_cli::api::{BucketClient, Call};
use lockhouse_cli::exit::{FAILURE, Failure, USAGE, complain};
use lockhouse_cli::print::{print, text};
use lockhouse_cli::shape::Shape;
use lockhouse_cli::target::Target;
use lockhouse_server::{StoreChoice, operator_file};
use serde_json::{Value, json};

use crate::postgres::{PostgresArgs, store_of};

/// Back up the database of a running server.
///
/// The server writes the file, so the path is on its machine. An existing file is never overwritten. You need
/// read
/// access to the folder of the database: the server keeps the operator's secret there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse backup /var/backups/lockhouse-monday.db
  lockhouse backup monday.db --store sqlite:/var/lib/lockhouse/locks.db

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have done it, or not
  75 not possible now")]
pub(crate) struct Backup {
    /// The new file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    store: Of,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

/// Restore a backup while the server is stopped.
///
/// The present database is kept aside. In PostgreSQL the tables are made where they are missing; the backup
/// is refused if a server has used them before. As the grants after the backup are unknown, fencing tokens go
/// on above all that can have been given, by the clock of this machine, and the next server waits for the
/// length of a lease before it grants anything.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse restore /var/backups/lockhouse-monday.db
  lockhouse restore monday.db --store sqlite:/var/lib/lockhouse/locks.db
  lockhouse restore monday.db --store postgres://lockhouse@db.example/locks --slots 256

Exit codes:
   0 done
   1 failure
   2 wrong usage")]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The store that gets it: sqlite:PATH, or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "STORE", default_value = "sqlite:lockhouse.db", env = "LOCKHOUSE_STORE")]
    store: String,

    #[command(flatten)]
    postgres: PostgresArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Of {
    /// The store of the server
    #[arg(long, value_name = "STORE", default_value = "sqlite:lockhouse.db", env = "LOCKHOUSE_STORE")]
    store: StoreChoice,
}

/// The file of a store that is one.
fn database<'a>(store: &'a StoreChoice, what_to_do: &str) -> Result<&'a Path, Failure> {
    match store {
        StoreChoice::Sqlite(path) => Ok(path),
        StoreChoice::Memory { .. } => Err(Failure::new(
            USAGE,
            format_args!("store: memory:, but only a database file, sqlite:PATH, can be {what_to_do}"),
        )),
        StoreChoice::Postgres(_) => Err(Failure::new(
            USAGE,
            format_args!(
                "store: postgres://, but only a database file, sqlite:PATH, can be {what_to_do} by this command; use pg_dump, or pg_basebackup and an archive"
            ),
        )),
    }
}

impl Backup {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        // The variables may be there for other commands.
        let is_of = |variable: &str, value: &str| env::var(variable).is_ok_and(|known| known == value);
        let bucket = self.target.bucket.as_deref().filter(|bucket| !bucket.is_empty());
        if bucket.is_some_and(|bucket| !is_of("LOCKHOUSE_BUCKET", bucket)) {
            return Err(Failure::new(USAGE, "--bucket: must be absent, as a backup has all buckets"));
        }
        let names_bucket = |url: &String| {
            let query = url.split_once('?').map_or("", |(_, query)| query);
            query.split('&').any(|pair| pair.starts_with("bucket="))
        };
        let urls = &self.target.urls;
        if urls.iter().any(names_bucket) && !is_of("LOCKHOUSE_URL", &urls.join(",")) {
            return Err(Failure::new(USAGE, "--url: must name no bucket, as a backup has all buckets"));
        }
        let secret_file = operator_file(database(&self.store.store, "backed up")?);
        let secret = fs::read_to_string(&secret_file).map_err(|error| {
            let shown = secret_file.display();
            let why = match error.kind() {
                ErrorKind::NotFound => {
                    format!("{shown} is not there: no server runs on this database; name the server's database with --store")
                }
                _ => format!("cannot read {shown}: {error}"),
            };
            Failure::new(FAILURE, why)
        })?;
        let file = std::path::absolute(&self.file).map_err(|error| Failure::new(USAGE, error))?;
        let Some(file) = file.to_str() else {
            return Err(Failure::new(USAGE, format_args!("file: {}, but it must be UTF-8", file.display())));
        };
        let call = Call::post(&["backup"]).of_server().secret(secret).body(json!({"file": file}).to_string());
        let backup = BucketClient::new(&self.target)?.call(call, &[("file", Shape::Word)]).await?;
        print(self.json, &backup, || vec![format!("backed up to {}", text(&backup, "file"))])
    }
}

impl Restore {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let store = &store_of(&self.store)?;
        let store = match store {
            StoreChoice::Postgres(url) => return self.restore_to_postgres(url.as_str()).await,
            store => store,
        };
        let database = database(store, "restored")?;
        self.postgres.must_be_absent()?;
        let restored = restore(&self.file, database).map_err(|error| Failure::new(FAILURE, error))?;
        let aside = restored.kept_aside.map(|path| path.display().to_string());
        let report = json!({
            "database": database.display().to_string(),
            "keptAside": aside,
            "tokensAbove": restored.above.mark,
            "epochsAbove": restored.above.epoch,
        });
        let aside = aside.map(|aside| format!("what was there before is at {aside}"));
        self.report(&report, restored.above, aside)
    }

    async fn restore_to_postgres(&self, address: &str) -> Result<ExitCode, Failure> {
        let options = self.postgres.options();
        let mut last = Instant::now();
        let progress = |done, all| {
            if last.elapsed() >= Duration::from_secs(1) {
                last = Instant::now();
                complain(format_args!("{done} of {all} rows are copied"));
            }
        };
        let restored = PostgresStore::restore(&self.file, address, options, progress).await;
        let restored = restored.map_err(|error| Failure::new(FAILURE, error))?;
        let report = json!({
            "database": restored.place,
            "rows": restored.rows,
            "tokensAbove": restored.above.mark,
            "epochsAbove": restored.above.epoch,
        });
        self.report(&report, restored.above, Some(format!("{} rows were copied", restored.rows)))
    }

    fn report(
        &self,
        report: &Value,
        above: HighestNumbers,
        more: Option<String>,
    ) -> Result<ExitCode, Failure> {
        if above.is_beyond(SystemTime::now()) {
            let reached = humantime::format_rfc3339_seconds(above.reached_at());
            complain(format_args!(
                "warning: the fencing tokens are ahead of the clock of this machine until {reached}: the clock is behind, or was ahead at an earlier \
                 start or restore; set it right if it is wrong. Until then tokens can come again if a restore does not find the database that it replaces"
            ));
        }
        print(self.json, report, || {
            let tokens = format!("fencing tokens go on above {}", above.mark);
            let done = format!("restored {}", text(report, "database"));
            std::iter::once(done).chain(more).chain([tokens]).collect()
        })
    }
}
