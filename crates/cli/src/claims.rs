//! `lockhouse claim`, `renew`, `release`, `finalize`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::common::api::{BucketClient, Call};
use crate::common::duration;
use crate::common::print::{line, print, take_back, text};
use crate::common::secret_file::{self, SecretFile};
use crate::common::shape::{Promised, Shape};
use crate::common::target::Target;
use crate::exit::Failure;
use crate::owner::millis;

const CLAIMED: Promised =
    &[("token", Shape::Word), ("expiresAt", Shape::Word), ("fencingToken", Shape::Number)];
const RELEASED: Promised = &[("released", Shape::Flag)];
const ASSIGNED: Promised = &[
    ("resource", Shape::Text),
    ("claimant", Shape::Word),
    ("assignedAt", Shape::Word),
    ("fencingToken", Shape::Number),
];

/// Claim a resource: reserve it now, prepare, and make it final only if it is still yours.
///
/// Prints the token that renew, release and finalize need. The claim ends after its TTL unless it is renewed
/// or made
/// final before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  TOKEN=$(lockhouse claim seat/12a --claimant Anna --ttl 10m) || echo \"taken\"
  pay && lockhouse finalize seat/12a \"$TOKEN\" || echo \"too late, give the money back\"

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have done it, or not
  75 not granted (the resource is claimed, busy or assigned), or not possible now: see stderr")]
pub struct Claim {
    /// The resource
    #[arg(value_name = "RESOURCE")]
    resource: String,

    /// The claimant's name, shown to others who are refused
    #[arg(long, value_name = "NAME")]
    claimant: String,

    /// How long the claim stands unless it is renewed, at most 30d [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl)]
    ttl: Option<Duration>,

    /// A text about the claim, shown to others
    #[arg(long, value_name = "TEXT")]
    metadata: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

/// Renew a claim: its TTL starts again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse renew seat/12a \"$TOKEN\"

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have done it, or not
  75 not possible now
  76 the claim has expired or is lost")]
pub struct Renew {
    #[command(flatten)]
    claimed: Claimed,
}

/// Give a claim back: the resource is free at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse release seat/12a \"$TOKEN\"

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have done it, or not
  75 not possible now
  76 the claim has expired or is lost")]
pub struct Release {
    #[command(flatten)]
    claimed: Claimed,
}

/// Make a claim final: the resource is assigned to its claimant for good.
///
/// Succeeds only if the claim still stands at that moment. Finalizing again gives the same answer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse finalize seat/12a \"$TOKEN\"

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have done it, or not
  75 not possible now
  76 the claim has expired or is lost")]
pub struct Finalize {
    #[command(flatten)]
    claimed: Claimed,
}

#[derive(Debug, Args)]
struct Claimed {
    /// The resource
    #[arg(value_name = "RESOURCE")]
    resource: String,

    /// The token that `lockhouse claim` printed
    #[arg(
        value_name = "TOKEN",
        env = "LOCKHOUSE_CLAIM_TOKEN",
        hide_env_values = true,
        required_unless_present = "token_file"
    )]
    token: Option<String>,

    /// A file with the token, or - for stdin; it goes before TOKEN
    #[arg(long, value_name = "FILE", value_parser = secret_file::parse)]
    token_file: Option<SecretFile>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

impl Claim {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let body = json!({
            "resource": self.resource, "claimant": self.claimant, "ttlMs": millis(self.ttl), "metadata": self.metadata,
        });
        let api = BucketClient::new(&self.target)?;
        let claimed = api.call(Call::post(&["claims"]).body(body.to_string()), CLAIMED).await?;
        match print(self.json, &claimed, || vec![text(&claimed, "token")]) {
            Ok(code) => Ok(code),
            Err(failure) => {
                let body = json!({"resource": self.resource, "token": claimed["token"]});
                let call = Call::post(&["claims", "release"]).body(body.to_string());
                let released = api.call(call, RELEASED).await;
                Err(take_back(failure, released.map(drop)))
            }
        }
    }
}

impl Claimed {
    async fn call(&self, what: &str, members: Promised) -> Result<Value, Failure> {
        let token = self.token_file.as_ref().map(SecretFile::secret).or(self.token.as_deref());
        let body = json!({"resource": self.resource, "token": token});
        let call = Call::post(&["claims", what]).body(body.to_string());
        BucketClient::new(&self.target)?.call(call, members).await
    }
}

impl Renew {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let renewed = self.claimed.call("renew", &[("expiresAt", Shape::Word)]).await?;
        let lines =
            || vec![format!("stands until {} unless it is renewed again", text(&renewed, "expiresAt"))];
        print(self.claimed.json, &renewed, lines)
    }
}

impl Release {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let released = self.claimed.call("release", RELEASED).await?;
        print(self.claimed.json, &released, Vec::new)
    }
}

impl Finalize {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let assignment = self.claimed.call("finalize", ASSIGNED).await?;
        let lines = || vec![line(&assignment, &["resource", "claimant", "assignedAt", "fencingToken"])];
        print(self.claimed.json, &assignment, lines)
    }
}
