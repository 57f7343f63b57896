//! `lockhouse events`

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lockhouse::remote::http::{EMPTY_STREAMS, EventQuery, EventsError, SentEvent};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::common::api::BucketClient;
use crate::common::print::{line, reader_gone};
use crate::common::target::Target;
use crate::exit::{FAILURE, Failure, complain};

/// Print what happens in a bucket, a line for each event, until it is ended.
///
/// Grants, waits, ends and refusals of web locks, offline locks and claims, assignments, and the beginning
/// and end of owners. When the connection is lost it connects again, says so on stderr, and goes on where it
/// was; where events are missing a line "gap" comes, and then what is held and waits, as lines "state".
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse events
  lockhouse events --name customer/42        # tell me when it is free
  lockhouse events --kind claim --prefix seat/ --json | jq .clientId

With --json, an object on each line with the keys event, id, at, kind, name, mode, state, place, clientId,
owner, fencingToken, since, expiresAt, metadata, end, cause, by and reason, whichever apply. A \"state\"
without a name says that nothing is held and nobody waits.

Exit codes:
   0 done: the reader of the lines has gone
   1 failure
   2 wrong usage
  69 the server cannot be reached at the start, or is no lockhouse server
  75 the server refuses for now, as on a full disk")]
pub struct EventsCommand {
    /// Only events of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Only events of names that begin with this
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Only events of this kind of lock
    #[arg(long, value_name = "KIND", value_parser = ["web", "offline", "claim"])]
    kind: Option<String>,

    /// Begin with what is held and waits
    #[arg(long)]
    state: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

/// The pause before the first attempt to connect again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl EventsCommand {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let api = BucketClient::new(&self.target)?;
        tokio::select! {
            end = self.follow(&api) => end,
            () = reader_gone() => Ok(ExitCode::SUCCESS),
        }
    }

    async fn follow(&self, api: &BucketClient) -> Result<ExitCode, Failure> {
        let mut query = self.query();
        let (mut is_begun, mut has_events, mut empty_streams, mut pause) = (false, false, 0, PAUSES.0);
        loop {
            match api.http().open_events(&query).await {
                Ok(mut events) => {
                    if is_begun {
                        complain("connected again");
                    }
                    is_begun = true;
                    let since = Instant::now();
                    while let Some(event) = events.next().await {
                        let Some(data) = data_of(&event) else { return Err(api.strange_events()) };
                        pause = PAUSES.0;
                        match self.print(&event, data) {
                            Ok(()) => {}
                            // The reader has read enough.
                            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                                return Ok(ExitCode::SUCCESS);
                            }
                            Err(error) => {
                                return Err(Failure::new(FAILURE, format!("cannot write: {error}")));
                            }
                        }
                    }
                    if let Some(id) = events.last_id() {
                        query = query.after(id);
                    }
                    has_events |= events.has_begun();
                    // Where nothing happens, a connection that has lasted was good as well.
                    if since.elapsed() >= PAUSES.1 {
                        pause = PAUSES.0;
                    } else if !has_events {
                        empty_streams += 1;
                        if empty_streams == EMPTY_STREAMS {
                            return Err(api.strange_events());
                        }
                    }
                    complain("the connection is lost; connecting again");
                }
                Err(EventsError::Unanswered(why)) if !is_begun => return Err(api.failed(why, true)),
                Err(EventsError::NoEvents(answer)) if !is_begun => return Err(api.refused(&answer)),
                Err(EventsError::Refused(answer)) if !is_begun || !is_away(answer.status) => {
                    return Err(api.refused(&answer));
                }
                Err(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn query(&self) -> EventQuery {
        let mut query = EventQuery::new();
        if let Some(name) = &self.name {
            query = query.name(name);
        }
        if let Some(prefix) = &self.prefix {
            query = query.prefix(prefix);
        }
        if let Some(kind) = &self.kind {
            query = query.kind(kind);
        }
        if self.state { query.state() } else { query }
    }

    fn print(&self, event: &SentEvent, data: Value) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for mut entry in entries(data) {
            if self.json {
                entry["event"] = json!(event.kind);
                entry["id"] = json!(event.id);
                writeln!(out, "{entry}")?;
            } else {
                writeln!(out, "{}", described(&event.kind, &entry))?;
            }
        }
        out.flush()
    }
}

/// The data of an event, if a lockhouse server sends such.
fn data_of(event: &SentEvent) -> Option<Value> {
    let data: Value = serde_json::from_str(&event.data).ok()?;
    let is_one = match &*event.kind {
        "gap" => data.is_object(),
        "state" => data["entries"].is_array(),
        _ => data["at"].is_string() && data["kind"].is_string(),
    };
    is_one.then_some(data)
}

/// The objects of an event: of the state each entry, and one without a name if there is none.
fn entries(mut data: Value) -> Vec<Value> {
    match data.get_mut("entries").map(Value::take) {
        Some(Value::Array(entries)) if entries.is_empty() => vec![json!({})],
        Some(Value::Array(entries)) => entries,
        _ => vec![data],
    }
}

/// Whether the server may be back later.
fn is_away(status: u16) -> bool {
    matches!(status, 429 | 502..=504)
}

fn described(kind: &str, entry: &Value) -> String {
    if kind == "gap" {
        return "gap: events are missing here; the present state follows".to_owned();
    }
    if kind == "state" && entry["name"].is_null() {
        return format!("{kind:<10}  nothing is held and nobody waits");
    }
    let keys = [
        "at",
        "kind",
        "name",
        "mode",
        "state",
        "place",
        "clientId",
        "owner",
        "fencingToken",
        "end",
        "cause",
        "since",
        "expiresAt",
        "metadata",
    ];
    let there: Vec<&str> = keys.into_iter().filter(|key| !entry[*key].is_null()).collect();
    let mut text = format!("{kind:<10}  {}", line(entry, &there));
    if entry["by"].is_string() {
        text += &format!("  by {}", line(entry, &["by"]));
    }
    if entry["reason"].is_string() {
        text += &format!("  ({})", line(entry, &["reason"]));
    }
    text
}
