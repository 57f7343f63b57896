//! `lockhouse assignments`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::common::api::{BucketClient, Call};
use crate::common::print::{line, print};
use crate::common::shape::Shape;
use crate::common::target::Target;
use crate::exit::Failure;

/// List assignments: claims that were made final.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse assignments
  lockhouse assignments --prefix seat/ --json
  lockhouse assignments delete seat/12a     # the seat can be claimed again
  lockhouse assignments delete seat/12a --reason \"cancelled by phone\"

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have deleted it, or not
  75 not possible now")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Assignments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Only resources whose names begin with this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prefix: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Delete an assignment; if there is none, nothing happens
    Delete(Delete),
}

#[derive(Debug, Args)]
struct Delete {
    /// The resource
    #[arg(value_name = "RESOURCE")]
    resource: String,

    /// Only the assignment with this fencing token
    #[arg(long, value_name = "NUMBER")]
    token: Option<u64>,

    /// The reason, for the audit log of the server
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    common: Common,
}

impl Assignments {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Some(Command::Delete(delete)) => delete.run().await,
            None => {
                let filters = [("kind", "assignment"), ("prefix", &*self.prefix)];
                let entries = BucketClient::new(&self.common.target)?.all(&filters).await?;
                let assignments: Vec<Value> = entries.iter().map(assignment).collect();
                let lines = || {
                    let keys = ["resource", "claimant", "assignedAt", "fencingToken"];
                    assignments.iter().map(|assignment| line(assignment, &keys)).collect()
                };
                print(self.common.json, &Value::Array(assignments.clone()), lines)
            }
        }
    }
}

/// An entry of a query with the keys of an assignment.
fn assignment(entry: &Value) -> Value {
    json!({
        "resource": entry["name"], "claimant": entry["clientId"], "assignedAt": entry["since"],
        "fencingToken": entry["fencingToken"],
    })
}

impl Delete {
    async fn run(self) -> Result<ExitCode, Failure> {
        let mut call = Call::delete(&["assignments"]).with("resource", &self.resource);
        if let Some(token) = self.token {
            call = call.with("fencingToken", token.to_string());
        }
        if let Some(reason) = &self.reason {
            call = call.with("reason", reason);
        }
        let answer =
            BucketClient::new(&self.common.target)?.call(call, &[("unassigned", Shape::Flag)]).await?;
        let report = json!({"resource": self.resource, "deleted": answer["unassigned"]});
        print(self.common.json, &report, Vec::new)
    }
}
