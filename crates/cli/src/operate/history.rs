//! `lockhouse history`

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use lockhouse::store::{HISTORY_PAGE, HistoryEnd};
use serde_json::Value;

use crate::common::api::{BucketClient, Call, take_list};
use crate::common::print::{print, table, text};
use crate::common::shape::{Promised, Shape};
use crate::common::target::Target;
use crate::exit::Failure;

/// Show who held what, from when to when, and why it ended.
///
/// What has ended, the latest first: offline locks, claims, assignments and owners, also those from before a
/// restart, and web locks since the server began; and what was refused (mostly within 10 s) or waited for in
/// vain. What is held now is shown by "lockhouse ls", what happens by "lockhouse events".
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse history
  lockhouse history customer/42              # who had that record, and until when
  lockhouse history --end broken --json
  lockhouse history --kind claim --prefix seat/ --limit 10
  lockhouse history --end refused --from 2026-11-20T08:00:00Z

With --json, one array on one line. Each entry is an object with the keys kind, name, label, owner, mode,
fencingToken, waitingSince, since, endedAt, end, operator, reason and count.

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  75 the server refuses for now, as on a full disk")]
pub struct History {
    /// Only this resource name
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Only names that begin with this
    #[arg(long, value_name = "TEXT", conflicts_with = "name")]
    prefix: Option<String>,

    /// Only entries of this kind
    #[arg(long, value_name = "KIND", value_parser = ["owner", "offline", "claim", "assignment", "web"])]
    kind: Option<String>,

    /// Only what ended so
    #[arg(long, value_name = "WORD", value_parser = ends())]
    end: Option<String>,

    /// Only this owner and its offline locks
    #[arg(long, value_name = "ID")]
    owner: Option<String>,

    /// Only of this label, claimant or client id
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    /// Only the hold with this fencing token
    #[arg(long, value_name = "NUMBER")]
    token: Option<u64>,

    /// Only what ended at this instant or later, as 2026-11-20T12:00:00Z
    #[arg(long, value_name = "INSTANT")]
    from: Option<String>,

    /// Only what ended before this instant
    #[arg(long, value_name = "INSTANT")]
    to: Option<String>,

    /// The most entries
    #[arg(long, value_name = "COUNT", default_value = "50")]
    limit: NonZeroUsize,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

fn ends() -> PossibleValuesParser {
    PossibleValuesParser::new(HistoryEnd::KEYS.iter().map(|(key, _)| *key))
}

/// The members of a page.
const ENTRIES: Promised = &[(
    "entries",
    Shape::List(&[
        ("kind", Shape::Word),
        ("end", Shape::Word),
        ("endedAt", Shape::Word),
        ("label", Shape::Text),
    ]),
)];

impl History {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let api = BucketClient::new(&self.target)?;
        let (mut entries, mut cursor) = (Vec::new(), None);
        let most = self.limit.get();
        while entries.len() < most {
            let mut page = api.call(self.call(most - entries.len(), cursor.as_deref()), ENTRIES).await?;
            entries.extend(take_list(&mut page, "entries"));
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        print(self.json, &Value::Array(entries.clone()), || described(&entries, &api.bucket()))
    }

    fn call(&self, left: usize, cursor: Option<&str>) -> Call {
        let token = self.token.map(|token| token.to_string());
        let filters = [
            ("name", self.name.as_deref()),
            ("prefix", self.prefix.as_deref()),
            ("kind", self.kind.as_deref()),
            ("end", self.end.as_deref()),
            ("owner", self.owner.as_deref()),
            ("label", self.label.as_deref()),
            ("fencingToken", token.as_deref()),
            ("from", self.from.as_deref()),
            ("to", self.to.as_deref()),
            ("cursor", cursor),
        ];
        let call = Call::get(&["history"]).with("limit", left.min(HISTORY_PAGE).to_string());
        let given = filters.into_iter().filter_map(|(key, value)| value.map(|value| (key, value)));
        given.fold(call, |call, (key, value)| call.with(key, value))
    }
}

fn described(entries: &[Value], bucket: &str) -> Vec<String> {
    if entries.is_empty() {
        return vec![format!("nothing that was asked for has ended or was refused in bucket {bucket:?}")];
    }
    let row = |entry: &Value| {
        let [ended, end, kind, name, label, since, token] =
            ["endedAt", "end", "kind", "name", "label", "since", "fencingToken"].map(|key| text(entry, key));
        [ended, end, kind, name, label, since, token, why(entry)]
    };
    let header = ["ENDED", "END", "KIND", "NAME", "LABEL", "SINCE", "TOKEN", "BY AND WHY"];
    table(header, entries.iter().map(row))
}

/// Whether it never held, how often, by whom, and with which reason.
fn why(entry: &Value) -> String {
    let waited = matches!(entry["kind"].as_str(), Some("web" | "offline" | "claim"))
        && entry["fencingToken"].is_null()
        && entry["end"] != "refused";
    let waited = waited.then(|| "waited, never held".to_owned());
    let times = entry["count"].as_u64().filter(|count| *count > 1).map(|count| format!("{count} times"));
    let operator = entry["operator"].is_string().then(|| format!("by {}", text(entry, "operator")));
    let reason = entry["reason"].is_string().then(|| format!("({})", text(entry, "reason")));
    [waited, times, operator, reason].into_iter().flatten().collect::<Vec<_>>().join("  ")
}
