//! `lockhouse cluster`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use lockhouse::store::PostgresStore;
use lockhouse_cli::cluster::{Drain, Show};
use lockhouse_cli::exit::{FAILURE, Failure, USAGE};
use lockhouse_cli::print::print;
use lockhouse_server::StoreChoice;
use serde_json::Value;

use crate::postgres::{PostgresArgs, store_of};

/// Show the nodes and slots of a fleet.
///
/// Any node can be asked. With authentication this needs the permission operate in all buckets.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse cluster
  lockhouse cluster --json --url https://b.example:7420
  lockhouse cluster drain                    # the node that is asked gives its slots to the others
  lockhouse cluster drain b.example:7420     # another node does
  lockhouse cluster restored --store postgres://lockhouse@db.example/locks

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the node may have been asked, or not
  75 not possible now")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    show: Show,
}

#[derive(Debug, Subcommand)]
enum Command {
    Drain(Drain),
    Restored(Restored),
}

/// Say that the database was put back to an earlier state by other means than lockhouse can see, such as the
/// files of a snapshot.
///
/// As the grants after that state are unknown, fencing tokens go on above all that can have been given, and
/// every slot waits for the length of a lease. Nodes that run learn of it at their next commit. What a
/// restore by PostgreSQL itself leaves behind, a new timeline, is noticed without this.
#[derive(Debug, Args)]
struct Restored {
    /// The store: postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "STORE", env = "LOCKHOUSE_STORE")]
    store: String,

    #[command(flatten)]
    postgres: PostgresArgs,
}

impl Cluster {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Some(Command::Drain(drain)) => drain.run().await,
            Some(Command::Restored(restored)) => restored.run().await,
            None => self.show.run().await,
        }
    }
}

impl Restored {
    async fn run(self) -> Result<ExitCode, Failure> {
        let StoreChoice::Postgres(url) = store_of(&self.store)? else {
            let why = "--store: must be postgres://USER@HOST/DATABASE; a database file is restored by \"lockhouse restore\"";
            return Err(Failure::new(USAGE, why));
        };
        let store = PostgresStore::open(url.as_str(), self.postgres.options()).await;
        let store = store.map_err(|error| Failure::new(FAILURE, error))?;
        store.declare_restored().await.map_err(|error| Failure::new(FAILURE, error))?;
        print(false, &Value::Null, || vec!["the database counts as restored".to_owned()])
    }
}
