//! `lockhouse ls`

mod find;
mod rows;

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lockhouse::remote::{Connection, ConnectionState};

use self::find::Find;
use self::rows::{changes, json, json_array, rows, table};
use crate::common::api::BucketClient;
use crate::common::print::{reader_gone, recovery};
use crate::common::target::Target;
use crate::exit::{FAILURE, Failure, complain};

/// List who holds and who waits.
///
/// Everyone who may connect to a bucket sees all of it. The list may be out of date by the time you read it.
/// In the first moments after a restart a lock is missing until its holder has come back, which a line on
/// stderr says then.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse ls
  lockhouse ls --json | jq '.[] | select(.state == \"held\")'
  lockhouse ls report                            # who holds that name, and who waits for it
  lockhouse ls --prefix seat/ --kind claim
  lockhouse ls --state pending --older-than 30s --sort age
  lockhouse ls --watch --bucket jobs
  lockhouse ls --watch --json

A name or a filter shows assignments as well, which a plain list leaves out. With --json, one array
on one line. Each lock or request is an object with the keys bucket, name, mode, kind, state, clientId,
owner, since, expiresAt, place, fencingToken and metadata. With --watch as well, one object per line:
first all, then each that has changed. One that has ended comes once more, with the state \"ended\".

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  75 the server refuses for now, as on a full disk")]
pub struct Ls {
    #[command(flatten)]
    find: Find,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Keep running and print changes
    #[arg(long, conflicts_with = "Find")]
    watch: bool,

    #[command(flatten)]
    target: Target,
}

impl Ls {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        if self.find.is_asked() {
            let api = BucketClient::new(&self.target)?;
            let (rows, recovers_for) = self.find.rows(&api).await?;
            warn_of_recovery(recovers_for);
            let empty = || self.find.nothing(&api.bucket());
            return finish(print(&if self.json { vec![json_array(&rows)] } else { table(&rows, empty()) }));
        }
        let connection = self.target.connecting().while_draining().await;
        let connection = connection.map_err(|error| self.target.failure(error))?;
        let result = if self.watch {
            self.watch(&connection).await
        } else {
            let snapshot = connection.query(None).await.map_err(|error| Failure::new(FAILURE, error))?;
            warn_of_recovery(connection.recovers_for());
            let bucket = connection.bucket();
            let rows = rows(bucket, snapshot);
            print(&if self.json { vec![json_array(&rows)] } else { table(&rows, nothing(bucket)) })
        };
        connection.close().await;
        finish(result)
    }

    async fn watch(&self, connection: &Connection) -> Result<(), Error> {
        let mut watch = connection.watch(None);
        let mut state = connection.state();
        let mut shown = Vec::new();
        let mut older = tokio::time::interval(AGE_SHOWN);
        let mut reader_gone = pin!(reader_gone());
        let shows_age = !self.json && io::stdout().is_terminal();
        if self.json {
            warn_of_recovery(connection.recovers_for());
        }
        loop {
            let snapshot = tokio::select! {
                snapshot = watch.next() => snapshot?,
                _ = older.tick(), if shows_age && !shown.is_empty() => {
                    clear_screen()?;
                    warn_of_recovery(connection.recovers_for());
                    print(&table(&shown, nothing(connection.bucket())))?;
                    continue;
                }
                () = &mut reader_gone => return Ok(()),
                Ok(()) = state.changed() => {
                    match *state.borrow_and_update() {
                        ConnectionState::Lost => complain("the connection is lost; connecting again"),
                        ConnectionState::Open if self.json => {
                            warn_of_recovery(connection.recovers_for());
                        }
                        _ => {}
                    }
                    continue;
                }
            };
            let rows = rows(connection.bucket(), snapshot);
            if self.json {
                print(&changes(&shown, &rows).iter().map(json).collect::<Vec<_>>())?;
            } else if rows != shown || shown.is_empty() {
                clear_screen()?;
                warn_of_recovery(connection.recovers_for());
                print(&table(&rows, nothing(connection.bucket())))?;
            }
            shown = rows;
        }
    }
}

/// What is said of a bucket in which there is nothing.
fn nothing(bucket: &str) -> String {
    format!("nothing is held and nobody waits in bucket {bucket:?}")
}

/// Says on stderr that the list may be short, if the server still waits for holders from before its restart,
/// for that time at most.
fn warn_of_recovery(left: Duration) {
    if !left.is_zero() {
        complain(recovery(left));
    }
}

/// How often the ages in a table are brought up to date.
const AGE_SHOWN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Watch(#[from] lockhouse::RequestError),
}

fn finish(result: Result<(), Error>) -> Result<ExitCode, Failure> {
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The reader has read enough.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new(FAILURE, error)),
    }
}

fn print(lines: &[String]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// Where it is a screen.
fn clear_screen() -> Result<(), Error> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(b"\x1b[2J\x1b[H")?;
    }
    Ok(())
}
