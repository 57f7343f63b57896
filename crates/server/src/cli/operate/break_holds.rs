//! `lockhouse break`

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::common::api::{BucketClient, Call};
use crate::cli::common::print::{line, print, visible};
use crate::cli::common::target::Target;
use crate::cli::exit::{Failure, NOT_GRANTED};

/// As many holds as one call may name.
const HOLDS_PER_CALL: usize = 60;

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
   0 broken
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the holds may be broken, or not
  75 nothing broken: nothing is held, or not with that token")]
pub(in crate::cli) struct Break {
    /// The resource name
    #[arg(value_name = "NAME", required_unless_present = "prefix", conflicts_with = "prefix")]
    name: Option<String>,

    /// All names that begin with this
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Only the hold with this fencing token
    #[arg(long, value_name = "NUMBER", conflicts_with = "prefix")]
    token: Option<u64>,

    /// The reason: for the holders, the audit log and the history
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

impl Break {
    pub(in crate::cli) async fn run(self) -> Result<ExitCode, Failure> {
        let api = BucketClient::new(&self.target)?;
        let holds = match (&self.name, self.token) {
            (Some(name), Some(token)) if !self.dry_run => vec![json!({"name": name, "fencingToken": token})],
            _ => self.held(&api).await?,
        };
        if self.dry_run {
            let lines = || holds.iter().map(|hold| format!("would break {}", described(hold))).collect();
            return print(self.json, &json!({"held": holds}), lines);
        }
        let (mut broken, mut gone) = (Vec::new(), Vec::new());
        for holds in holds.chunks(HOLDS_PER_CALL) {
            let meant = |hold: &Value| json!({"name": hold["name"], "fencingToken": hold["fencingToken"]});
            let holds: Vec<Value> = holds.iter().map(meant).collect();
            let body = json!({"holds": holds, "reason": self.reason});
            let answer = api.call(Call::post(&["locks", "break"]).body(body.to_string())).await;
            let mut answer = answer.map_err(|failure| after(failure, broken.len()))?;
            for (list, all) in [("broken", &mut broken), ("gone", &mut gone)] {
                if let Value::Array(holds) = answer[list].take() {
                    all.extend(holds);
                }
            }
        }
        if broken.is_empty() {
            return Err(Failure::new(NOT_GRANTED, self.nothing()));
        }
        let lines = || {
            let broke = broken.iter().map(|hold| format!("broke {}", broken_line(hold)));
            let missed =
                gone.iter().map(|hold| format!("gone by then: {}", line(hold, &["name", "fencingToken"])));
            broke.chain(missed).collect()
        };
        print(self.json, &json!({"broken": broken, "gone": gone}), lines)
    }

    /// What is held of the names that are meant.
    async fn held(&self, api: &BucketClient) -> Result<Vec<Value>, Failure> {
        let prefix = self.prefix.as_deref().or(self.name.as_deref()).unwrap_or_default();
        let mut held = api.all(&["query"], "entries", &[("prefix", prefix), ("state", "held")]).await?;
        held.retain(|hold| {
            self.name.as_ref().is_none_or(|name| hold["name"] == **name)
                && self.token.is_none_or(|token| hold["fencingToken"] == token)
        });
        Ok(held)
    }

    fn nothing(&self) -> String {
        let name = |text: &str| visible(&format!("{text:?}"));
        match (&self.name, &self.prefix, self.token) {
            (Some(text), _, Some(token)) => {
                format!("nothing broken: {} is not held with the token {token}", name(text))
            }
            (Some(text), ..) => format!("nothing broken: {} is not held", name(text)),
            (None, prefix, _) => {
                let prefix = prefix.as_deref().unwrap_or_default();
                format!("nothing broken: no name that begins with {} is held", name(prefix))
            }
        }
    }
}

/// The failure of a call after which so many holds were broken by earlier calls.
fn after(failure: Failure, broken: usize) -> Failure {
    if broken == 0 {
        return failure;
    }
    Failure::new(failure.code, format_args!("{} ({broken} holds were broken before)", failure.message))
}

fn described(hold: &Value) -> String {
    line(hold, &["name", "kind", "clientId", "since", "fencingToken"])
}

fn broken_line(hold: &Value) -> String {
    let (name, token) = (line(hold, &["name"]), line(hold, &["fencingToken"]));
    format!("{name}  {}  {token}", line(&hold["holder"], &["kind", "label", "since"]))
}
