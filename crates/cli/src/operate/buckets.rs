//! `lockhouse buckets`

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::common::api::{BucketClient, Call, take_list};
use crate::common::print::{print, table, text};
use crate::common::shape::{Promised, Shape};
use crate::common::target::Target;
use crate::exit::{Failure, complain};

/// List the buckets in which there is anything.
///
/// Those of your tenant that you may look at (permission "query"), in the order of their names, with how many
/// locks and claims are held, how many requests wait, and how many owners and assignments there are. Of a
/// fleet those of all nodes; a line on stderr names nodes that did not answer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse buckets
  lockhouse buckets --prefix order --json

With --json, one array on one line. Each bucket is an object with the keys bucket, held, waiting, owners and
assigned.

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  75 the server refuses for now, as on a full disk")]
pub struct Buckets {
    /// Only names that begin with this
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// The most buckets
    #[arg(long, value_name = "COUNT")]
    limit: Option<NonZeroUsize>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

/// As many buckets as a page has at most.
const PAGE: usize = 1000;

/// The members of a page.
const BUCKETS: Promised = &[(
    "buckets",
    Shape::List(&[("bucket", Shape::Word), ("held", Shape::Number), ("waiting", Shape::Number)]),
)];

impl Buckets {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let api = BucketClient::new(&self.target)?;
        let most = self.limit.map_or(usize::MAX, NonZeroUsize::get);
        let (mut buckets, mut missing, mut cursor) = (Vec::new(), Vec::new(), None);
        while buckets.len() < most {
            let mut page = api.call(self.call(most - buckets.len(), cursor.as_deref()), BUCKETS).await?;
            buckets.extend(take_list(&mut page, "buckets"));
            let silent = page["missing"].as_array().into_iter().flatten();
            missing.extend(silent.filter_map(Value::as_str).map(str::to_owned));
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            complain(format_args!("no answer of {}: their buckets are missing", missing.join(", ")));
        }
        print(self.json, &Value::Array(buckets.clone()), || described(&buckets))
    }

    fn call(&self, left: usize, cursor: Option<&str>) -> Call {
        let call = Call::get(&["buckets"]).of_server().with("limit", left.min(PAGE).to_string());
        let call = self.prefix.iter().fold(call, |call, prefix| call.with("prefix", prefix));
        cursor.iter().fold(call, |call, cursor| call.with("cursor", cursor))
    }
}

fn described(buckets: &[Value]) -> Vec<String> {
    if buckets.is_empty() {
        return vec!["nothing is held, waits or is assigned in any bucket".to_owned()];
    }
    let row =
        |bucket: &Value| ["bucket", "held", "waiting", "owners", "assigned"].map(|key| text(bucket, key));
    table(["BUCKET", "HELD", "WAITING", "OWNERS", "ASSIGNED"], buckets.iter().map(row))
}
