//! `lockhouse break`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use lockhouse::Limits;
use serde_json::{Value, json};

use crate::common::api::{BucketClient, Call, ENTRIES, take_list};
use crate::common::print::{line, print, recovery, visible};
use crate::common::shape::{Promised, Shape};
use crate::common::target::Target;
use crate::exit::{FAILURE, Failure, NOT_GRANTED, UNKNOWN};

/// As many holds as one call may name.
const HOLDS_PER_CALL: usize = Limits::DEFAULT.locks_per_command;
/// A part of the longest body that a server takes.
const BYTES_PER_CALL: usize = 128 << 10;

/// End what is held, for its holder: web locks, offline locks and claims.
///
/// The holders of NAME are looked up, and exactly these holds are broken: what is granted meanwhile stays.
/// The holder is told that an operator broke it, and the reason; the next that waits is granted. A program
/// that was not told in time may go on for a while: guard what it writes with the fencing token.
///
/// Assignments are no holds: see "lockhouse assignments delete". With authentication this needs the
/// permission operate, and query unless --token is given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse break customer/42 --reason \"Ann is on holiday\"
  lockhouse break customer/42 --token 18     # only that hold, as \"lockhouse ls\" shows it
  lockhouse break --prefix seat/ --dry-run   # what would be broken
  lockhouse break --prefix seat/ --reason \"the hall is closed\"

With --json: the holds that were broken, each with its holder, and those that were gone by then.

Exit codes:
   0 broken; some may have been gone by then, which is said
   1 failure; also if some holds were broken and others could not be
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the holds may be broken, or not
  75 nothing broken, or with --dry-run to break: nothing is held, or not with that token")]
pub struct Break {
    /// The resource name
    #[arg(value_name = "NAME", required_unless_present = "prefix", conflicts_with = "prefix")]
    name: Option<String>,

    /// All names that begin with this
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    prefix: Option<String>,

    /// Only the hold with this fencing token
    #[arg(long, value_name = "NUMBER", conflicts_with = "prefix")]
    token: Option<u64>,

    /// The reason: for the holders, the audit log and the history. Some servers ask for one
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Show what would be broken, and break nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

const HOLDS: Shape = Shape::List(&[("name", Shape::Text), ("fencingToken", Shape::Number)]);
const BROKEN: Promised = &[("broken", HOLDS), ("gone", HOLDS)];

impl Break {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let api = BucketClient::new(&self.target)?;
        let holds = match (&self.name, self.token) {
            (Some(name), Some(token)) if !self.dry_run => vec![json!({"name": name, "fencingToken": token})],
            _ => self.held(&api).await?,
        };
        if self.dry_run && holds.is_empty() {
            return Err(self.nothing(&api).await);
        }
        if self.dry_run {
            let lines = || holds.iter().map(|hold| format!("would break {}", described(hold))).collect();
            return print(self.json, &json!({"held": holds}), lines);
        }
        let (mut broken, mut gone) = (Vec::new(), Vec::new());
        let mut failed = None;
        for holds in calls(&holds) {
            let body = json!({"holds": holds, "reason": self.reason});
            let answer = api.call(Call::post(&["locks", "break"]).body(body.to_string()), BROKEN).await;
            let mut answer = match answer {
                Ok(answer) => answer,
                Err(failure) if broken.is_empty() => return Err(failure),
                Err(failure) => {
                    failed = Some(failure);
                    break;
                }
            };
            for (list, all) in [("broken", &mut broken), ("gone", &mut gone)] {
                all.extend(take_list(&mut answer, list));
            }
        }
        if broken.is_empty() {
            return Err(self.nothing(&api).await);
        }
        let lines = || {
            let broke = broken.iter().map(|hold| format!("broke {}", broken_line(hold)));
            let missed =
                gone.iter().map(|hold| format!("gone by then: {}", line(hold, &["name", "fencingToken"])));
            broke.chain(missed).collect()
        };
        let printed = print(self.json, &json!({"broken": broken, "gone": gone}), lines);
        match failed {
            None => printed,
            Some(Failure { code, message }) => {
                let code = if code == UNKNOWN { UNKNOWN } else { FAILURE };
                Err(Failure::new(code, format_args!("not all holds were broken: {message}")))
            }
        }
    }

    /// What is held of the names that are meant.
    async fn held(&self, api: &BucketClient) -> Result<Vec<Value>, Failure> {
        let filter = match &self.name {
            Some(name) => ("name", name.as_str()),
            None => ("prefix", self.prefix.as_deref().unwrap_or_default()),
        };
        let mut held = api.all(&[filter, ("state", "held")]).await?;
        held.retain(|hold| self.token.is_none_or(|token| hold["fencingToken"] == token));
        Ok(held)
    }

    /// Nothing is held, or not with that token; perhaps not yet.
    async fn nothing(&self, api: &BucketClient) -> Failure {
        let name = |text: &str| visible(&format!("{text:?}"));
        let what = match (&self.name, &self.prefix, self.token) {
            (Some(text), _, Some(token)) => format!("{} is not held with the token {token}", name(text)),
            (Some(text), ..) => format!("{} is not held", name(text)),
            (None, prefix, _) => {
                let prefix = prefix.as_deref().unwrap_or_default();
                format!("no name that begins with {} is held", name(prefix))
            }
        };
        // With a token the permission to query may be missing, and then this is not known.
        let look = api.call(Call::get(&["query"]).with("state", "held").with("limit", "1"), ENTRIES).await;
        let recovers_for = look.ok().and_then(|page| page["recoveringMs"].as_u64()).unwrap_or_default();
        let missing = if recovers_for > 0 {
            format!("; {}", recovery(Duration::from_millis(recovers_for)))
        } else {
            String::new()
        };
        let would = if self.dry_run { "nothing to break" } else { "nothing broken" };
        Failure::new(NOT_GRANTED, format_args!("{would}: {what}{missing}"))
    }
}

/// The holds in portions that fit into a call each.
fn calls(holds: &[Value]) -> Vec<Vec<Value>> {
    let mut calls: Vec<Vec<Value>> = Vec::new();
    let mut bytes = 0;
    for hold in holds {
        let meant = json!({"name": hold["name"], "fencingToken": hold["fencingToken"]});
        let more = meant.to_string().len();
        match calls.last_mut() {
            Some(call) if call.len() < HOLDS_PER_CALL && bytes + more <= BYTES_PER_CALL => {
                bytes += more;
                call.push(meant);
            }
            _ => {
                bytes = more;
                calls.push(vec![meant]);
            }
        }
    }
    calls
}

fn described(hold: &Value) -> String {
    line(hold, &["name", "kind", "clientId", "since", "fencingToken"])
}

fn broken_line(hold: &Value) -> String {
    let (name, token) = (line(hold, &["name"]), line(hold, &["fencingToken"]));
    format!("{name}  {}  {token}", line(&hold["holder"], &["kind", "label", "since"]))
}
