//! `lockhouse ls`

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use lockhouse::remote::{Connection, ConnectionState};
use lockhouse::{LockInfo, LockState, Mode, NameBuf, Snapshot};
use lockhouse_wire as wire;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::Interest;
use tokio::net::unix::pipe;

use super::common::duration;
use super::common::print::visible;
use super::common::target::Target;
use super::exit::{FAILURE, Failure, complain};

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
  lockhouse ls --watch --bucket jobs
  lockhouse ls --watch --json

With --json, one array on one line. Each lock or request is an object with the keys bucket, name,
mode, kind, state, clientId, owner, since, expiresAt, place, fencingToken and metadata. With --watch
as well, one object per line: first all, then each that has changed. One that has ended comes once
more, with the state \"ended\".

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached")]
pub(super) struct Ls {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Keep running and print changes
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    target: Target,
}

impl Ls {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let connection = self.target.connecting().while_draining().await;
        let connection = connection.map_err(|error| self.target.failure(error))?;
        let result = if self.watch {
            self.watch(&connection).await
        } else {
            let snapshot = connection.query(None).await.map_err(|error| Failure::new(FAILURE, error))?;
            warn_of_recovery(&connection);
            let rows = rows(connection.bucket(), snapshot);
            if self.json { print(&[json_array(&rows)]) } else { print(&table(&rows, connection.bucket())) }
        };
        connection.close().await;
        match result {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // The reader has read enough.
            Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            Err(error) => Err(Failure::new(FAILURE, error)),
        }
    }

    async fn watch(&self, connection: &Connection) -> Result<(), Error> {
        let mut watch = connection.watch(None);
        let mut state = connection.state();
        let mut shown = Vec::new();
        let mut older = tokio::time::interval(AGE_SHOWN);
        let mut reader_gone = pin!(reader_gone());
        let shows_age = !self.json && io::stdout().is_terminal();
        if self.json {
            warn_of_recovery(connection);
        }
        loop {
            let snapshot = tokio::select! {
                snapshot = watch.next() => snapshot?,
                _ = older.tick(), if shows_age && !shown.is_empty() => {
                    clear_screen()?;
                    warn_of_recovery(connection);
                    print(&table(&shown, connection.bucket()))?;
                    continue;
                }
                () = &mut reader_gone => return Ok(()),
                Ok(()) = state.changed() => {
                    match *state.borrow_and_update() {
                        ConnectionState::Lost => complain("the connection is lost; connecting again"),
                        ConnectionState::Open if self.json => warn_of_recovery(connection),
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
                warn_of_recovery(connection);
                print(&table(&rows, connection.bucket()))?;
            }
            shown = rows;
        }
    }
}

/// Says on stderr that the list may be short, if the server still waits for holders from before its restart.
fn warn_of_recovery(connection: &Connection) {
    let left = connection.recovers_for();
    if !left.is_zero() {
        let left = duration::whole_seconds(left);
        complain(format_args!(
            "the server has restarted, and waits up to {left} for holders from before: their locks may be missing"
        ));
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

/// A lock or request, with exactly these keys in this order.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    bucket: String,
    name: Box<RawValue>,
    mode: &'static str,
    kind: &'static str,
    state: &'static str,
    client_id: String,
    owner: Option<String>,
    since: String,
    expires_at: Option<String>,
    place: Option<u32>,
    fencing_token: Option<u64>,
    metadata: Option<String>,
    #[serde(skip)]
    info: LockInfo,
}

impl PartialEq for Row {
    /// Compares without the instants, which the server reports with a tick's exactness only.
    fn eq(&self, other: &Self) -> bool {
        self.info.name == other.info.name && self.key() == other.key()
    }
}

impl Row {
    fn new(bucket: &str, info: LockInfo) -> Self {
        let (state, place) = match info.state {
            LockState::Held(_) => ("held", None),
            LockState::Pending { place } => ("pending", Some(place)),
        };
        let instant = |at| humantime::format_rfc3339_millis(at).to_string();
        Self {
            bucket: bucket.to_owned(),
            name: RawValue::from_string(wire::name_to_json(info.name.as_name()))
                .expect("the protocol's encoder writes JSON"),
            mode: match info.mode {
                Mode::Exclusive => "exclusive",
                Mode::Shared => "shared",
            },
            kind: info.kind.word(),
            state,
            client_id: info.client_id.clone(),
            owner: info.kind.owner(),
            since: instant(info.since),
            expires_at: info.expires_at.map(instant),
            place,
            fencing_token: info.fencing_token().map(lockhouse::FencingToken::get),
            metadata: info.metadata.clone(),
            info,
        }
    }

    /// The client that asks, and its mode.
    fn asker(&self) -> (&str, Mode) {
        (&self.client_id, self.info.mode)
    }

    /// The values in which the rows of one name differ.
    fn key(&self) -> (&str, Mode, LockState) {
        (&self.client_id, self.info.mode, self.info.state)
    }
}

/// By name, the held ones first, then by place.
fn rows(bucket: &str, snapshot: Snapshot) -> Vec<Row> {
    let infos = snapshot.held.into_iter().chain(snapshot.pending);
    let mut rows: Vec<Row> = infos.map(|info| Row::new(bucket, info)).collect();
    rows.sort_by(|a, b| {
        (&a.info.name, a.place, a.fencing_token).cmp(&(&b.info.name, b.place, b.fencing_token))
    });
    rows
}

/// The rows that are new or different in `now`, and the rows of `before` that have ended.
fn changes(before: &[Row], now: &[Row]) -> Vec<Row> {
    let mut names: BTreeMap<&NameBuf, (Vec<&Row>, Vec<&Row>)> = BTreeMap::new();
    before.iter().for_each(|row| names.entry(&row.info.name).or_default().0.push(row));
    now.iter().for_each(|row| names.entry(&row.info.name).or_default().1.push(row));
    names.values().flat_map(|(before, now)| changes_of_name(before, now)).collect()
}

fn changes_of_name(before: &[&Row], now: &[&Row]) -> Vec<Row> {
    let [known, alive] = [before, now].map(|rows| rows.iter().map(|row| row.key()).collect::<HashSet<_>>());
    let new: Vec<&Row> = now.iter().filter(|row| !known.contains(&row.key())).copied().collect();
    // A request that waited may be any new one of its client in its mode; one that was held would still have
    // its token.
    let mut unclaimed: HashMap<(&str, Mode), usize> = HashMap::new();
    new.iter().for_each(|row| *unclaimed.entry(row.asker()).or_default() += 1);
    let mut changes = Vec::new();
    for row in before.iter().filter(|row| !alive.contains(&row.key())) {
        match unclaimed.get_mut(&row.asker()) {
            Some(left @ 1..) if row.fencing_token.is_none() => *left -= 1,
            _ => changes.push(Row { state: "ended", place: None, ..(*row).clone() }),
        }
    }
    changes.extend(new.into_iter().cloned());
    changes
}

fn json(row: &Row) -> String {
    serde_json::to_string(row).expect("a row has nothing that JSON cannot hold")
}

fn json_array(rows: &[Row]) -> String {
    format!("[{}]", rows.iter().map(json).collect::<Vec<_>>().join(","))
}

/// Lines with aligned columns.
fn table(rows: &[Row], bucket: &str) -> Vec<String> {
    if rows.is_empty() {
        return vec![format!("nothing is held and nobody waits in bucket {bucket:?}")];
    }
    let columns = ["NAME", "KIND", "MODE", "STATE", "CLIENT", "AGE", "TOKEN", "METADATA"];
    let header = columns.map(str::to_owned);
    let now = SystemTime::now();
    let body = rows.iter().map(|row| {
        [
            visible(&row.info.name.as_name().display()),
            row.kind.to_owned(),
            row.mode.to_owned(),
            row.place.map_or_else(|| row.state.to_owned(), |place| format!("waits #{place}")),
            visible(&row.client_id),
            duration::age(now.duration_since(row.info.since).unwrap_or_default()),
            row.fencing_token.map_or_else(|| "-".to_owned(), |token| token.to_string()),
            row.metadata.as_deref().map_or_else(|| "-".to_owned(), visible),
        ]
    });
    let lines: Vec<_> = std::iter::once(header).chain(body).collect();
    let widths: [usize; 8] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    let align = |line: &[String; 8]| {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(align).collect()
}

fn print(lines: &[String]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// Waits until the pipe that stdout is has no reader. For ever, if it is none.
async fn reader_gone() {
    // Only its readiness is asked for: it goes on blocking when it is written to.
    let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked);
    let is_gone = match &stdout {
        Ok(stdout) => stdout.ready(Interest::ERROR).await.is_ok(),
        Err(_) => false,
    };
    if !is_gone {
        std::future::pending::<()>().await;
    }
}

/// Where it is a screen.
fn clear_screen() -> Result<(), Error> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(b"\x1b[2J\x1b[H")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn row(client_id: String, place: u32) -> Row {
        let info = LockInfo {
            request: None,
            kind: lockhouse::HolderKind::Web,

            name: NameBuf::new("n").unwrap(),
            mode: Mode::Exclusive,
            client_id,
            state: LockState::Pending { place },
            since: SystemTime::UNIX_EPOCH,
            expires_at: None,
            metadata: None,
        };
        Row::new("default", info)
    }

    fn reported(before: &[Row], now: &[Row]) -> Vec<(&'static str, String, Option<u32>)> {
        changes(before, now).into_iter().map(|row| (row.state, row.client_id, row.place)).collect()
    }

    #[test]
    fn one_of_two_requests_of_a_client_that_ends_is_reported_once() {
        let before = [row("a".into(), 1), row("a".into(), 2), row("b".into(), 3)];
        let now = [row("a".into(), 1), row("b".into(), 2)];
        let expected = [("ended", "a".to_owned(), None), ("pending", "b".to_owned(), Some(2))];
        assert_eq!(reported(&before, &now), expected);
    }

    #[test]
    fn a_long_queue_that_moves_up_is_compared_in_a_moment() {
        let queue = |first: u32| -> Vec<Row> {
            (first..30_000).map(|client| row(format!("client {client}"), client - first + 1)).collect()
        };
        let (before, now) = (queue(0), queue(1));
        let begin = Instant::now();
        let reported = reported(&before, &now);
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert_eq!(reported[0], ("ended", "client 0".to_owned(), None));
        assert_eq!(reported.len(), 30_000);
    }
}
