//! `lockhouse lock` and `lockhouse unlock`

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::common::api::{BucketClient, Call};
use crate::common::print::{line, print, record as record_of};
use crate::common::shape::{Promised, Shape};
use crate::common::target::Target;
use crate::exit::{FAILURE, Failure};
use crate::owner::Whose;

/// Lock records for an owner: all of them or none, without waiting.
///
/// Locks that the owner already holds are kept. The only reader of a record may become its writer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  owner=$(lockhouse owner open Anna) && eval \"$owner\"
  export LOCKHOUSE_OWNER LOCKHOUSE_OWNER_SECRET
  lockhouse lock customer/42 || echo \"somebody else is editing it\"
  lockhouse lock customer/42 order/7 order/8
  lockhouse lock --read catalogue/2026

Prints each record with its mode, its fencing token and one word: fresh (a new lock), upgraded,
alreadyHeld, or notNeeded (readers of the kind take no lock). A record is written as it is, also with
spaces; its resource name, which run and ls know, may be another text and is printed then, too. Pass
the token on with each write, so that the guarded resource can refuse older ones.

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have done it, or not
  75 not granted, with the holders on stderr; or not possible now, as stderr says
  76 the owner has ended")]
pub struct Lock {
    /// The records
    #[arg(value_name = "KIND/ID", required = true, value_parser = record)]
    records: Vec<Record>,

    /// Lock for reading only; the lock type of the kind decides what that locks
    #[arg(long)]
    read: bool,

    /// A text about the new locks, shown to others
    #[arg(long, value_name = "TEXT")]
    metadata: Option<String>,

    #[command(flatten)]
    whose: Whose,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

/// Release records that an owner has locked.
///
/// Records that the owner does not hold are skipped; if it holds none of those that are named, that is a
/// failure. Releasing again also releases what the owner has locked again since.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse unlock customer/42
  lockhouse unlock --all
  lockhouse unlock --all --sparing customer/42

Exit codes:
   0 done
   1 failure; also if nothing was released, but with --all
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have done it, or not
  75 not possible now
  76 the owner has ended")]
pub struct Unlock {
    /// The records
    #[arg(value_name = "KIND/ID", required_unless_present = "all", conflicts_with = "all", value_parser = record)]
    records: Vec<Record>,

    /// All records that the owner holds
    #[arg(long)]
    all: bool,

    /// With --all: all except this record; may be given several times
    #[arg(long, value_name = "KIND/ID", requires = "all", value_parser = record)]
    sparing: Vec<Record>,

    #[command(flatten)]
    whose: Whose,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

/// The members of an answer with locks; the token is missing where readers take no lock.
const LOCKED: Promised =
    &[("locks", Shape::List(&[("kind", Shape::Text), ("id", Shape::Text), ("how", Shape::Word)]))];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    kind: String,
    id: String,
}

fn record(text: &str) -> Result<Record, String> {
    match text.split_once('/') {
        Some((kind, id)) if !kind.is_empty() && !id.is_empty() => {
            Ok(Record { kind: kind.to_owned(), id: id.to_owned() })
        }
        _ => Err("a record is written KIND/ID, such as customer/42".to_owned()),
    }
}

impl Record {
    fn json(&self) -> Value {
        json!({"kind": self.kind, "id": self.id})
    }
}

impl Lock {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let intent = if self.read { "read" } else { "write" };
        let wanted = |record: &Record| json!({"kind": record.kind, "id": record.id, "intent": intent});
        let locks: Vec<Value> = self.records.iter().map(wanted).collect();
        let body = json!({"owner": self.whose.owner()?, "locks": &locks, "metadata": self.metadata});
        let call = Call::post(&["locks"]).secret(self.whose.secret()?).body(body.to_string());
        let api = BucketClient::new(&self.target)?;
        let locked = api.call(call, LOCKED).await?;
        // In the order asked.
        let granted = locked["locks"].as_array().into_iter().flatten();
        if !granted
            .map(|lock| (&lock["kind"], &lock["id"]))
            .eq(locks.iter().map(|lock| (&lock["kind"], &lock["id"])))
        {
            return Err(api.strange_change("it answers for other records than were asked for"));
        }
        print(self.json, &locked, || {
            let locks = locked["locks"].as_array().into_iter().flatten();
            let line =
                |lock| format!("{}  {}", record_of(lock), line(lock, &["mode", "fencingToken", "how"]));
            locks.map(line).collect()
        })
    }
}

impl Unlock {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let list = |records: &[Record]| {
            let records: Vec<Value> = records.iter().map(Record::json).collect();
            if records.is_empty() { Value::Null } else { Value::Array(records) }
        };
        let all = if self.all { Value::Bool(true) } else { Value::Null };
        let body = json!({
            "owner": self.whose.owner()?, "locks": list(&self.records), "all": all, "sparing": list(&self.sparing),
        });
        let call = Call::post(&["locks", "release"]).secret(self.whose.secret()?).body(body.to_string());
        let api = BucketClient::new(&self.target)?;
        let released = api.call(call, &[("released", Shape::Number)]).await?;
        if released["released"] == 0 && !self.all {
            let records: Vec<String> =
                self.records.iter().map(|Record { kind, id }| format!("{kind}/{id}")).collect();
            let advice = "a record is written as lock prints it, not percent-encoded as its resource name";
            let message = format!("the owner holds none of {} ({advice})", records.join(", "));
            return Err(Failure::new(FAILURE, message));
        }
        print(self.json, &released, || vec![format!("{} released", released["released"])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_slash_ends_the_kind() {
        let read = |text| record(text).map(|Record { kind, id }| (kind, id));
        assert_eq!(read("page/a/b"), Ok(("page".to_owned(), "a/b".to_owned())));
        for text in ["", "page", "/a", "page/"] {
            assert!(read(text).unwrap_err().contains("KIND/ID"), "{text}");
        }
    }
}
