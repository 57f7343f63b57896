//! `lockhouse owner`

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use lockhouse::Secret;
use serde_json::{Value, json};

use crate::common::api::{BucketClient, Call, NO_CONTENT};
use crate::common::duration;
use crate::common::print::{line, print, record, take_back, text};
use crate::common::secret_file::{self, SecretFile};
use crate::common::shape::{Promised, Shape};
use crate::common::target::Target;
use crate::exit::{Failure, USAGE};

/// Open, show, keep alive and end owners of offline locks.
///
/// An owner stands for a user session or a business transaction that edits records over many commands. It
/// ends,
/// together with its locks, when it has been silent for its TTL.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  owner=$(lockhouse owner open Anna)        # LOCKHOUSE_OWNER=… and LOCKHOUSE_OWNER_SECRET=…
  eval \"$owner\"; export LOCKHOUSE_OWNER LOCKHOUSE_OWNER_SECRET
  lockhouse lock customer/42
  lockhouse owner beat                      # from time to time while she works
  lockhouse owner end                       # releases all her locks

Exit codes:
   0 done
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 the outcome is unknown: the server may have done it, or not
  75 not granted, or not possible now
  76 the owner has ended")]
pub struct Owner {
    #[command(subcommand)]
    command: Command,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Open an owner; prints the environment variables that the other commands read
    Open(Open),
    /// Send a heartbeat: the TTL starts again
    Beat(Whose),
    /// Show the owner and its locks
    Show(Whose),
    /// End the owner and release all its locks
    End(Whose),
}

#[derive(Debug, Args)]
struct Open {
    /// The owner's name, shown to others who are refused
    label: String,

    /// How long the owner lives without any activity, at most 30d [default: 20m]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl)]
    ttl: Option<Duration>,

    /// How long the owner lives at most, whatever it does: up to 30d
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl)]
    max: Option<Duration>,

    /// A text about the owner, shown to others
    #[arg(long, value_name = "TEXT")]
    metadata: Option<String>,
}

/// The rule for the secret of an owner, with the places from which it may come.
pub(super) const SECRET_RULE: &str = "--secret, --secret-file or LOCKHOUSE_OWNER_SECRET must be the secret that \"lockhouse owner open\" printed with this owner";

/// The owner that a command acts for.
#[derive(Debug, Args)]
pub(super) struct Whose {
    /// The id of the owner, which `lockhouse owner open` prints
    #[arg(long, value_name = "ID", env = "LOCKHOUSE_OWNER")]
    owner: Option<String>,

    /// The secret of the owner, which `lockhouse owner open` prints
    #[arg(long, value_name = "SECRET", env = "LOCKHOUSE_OWNER_SECRET", hide_env_values = true)]
    secret: Option<String>,

    /// A file with the secret of the owner, or - for stdin; it goes before --secret
    #[arg(long, value_name = "FILE", value_parser = secret_file::parse)]
    secret_file: Option<SecretFile>,
}

/// What to do without an owner, or without its secret.
const NO_OWNER: &str = "an owner is needed, and its secret: open one with \"lockhouse owner open LABEL\", which prints both, and export them as LOCKHOUSE_OWNER and LOCKHOUSE_OWNER_SECRET, or name them with --owner and --secret or --secret-file";

impl Whose {
    /// A wrong value is not shown: it may be a secret in the wrong place.
    pub(super) fn owner(&self) -> Result<&str, Failure> {
        let Some(owner) = &self.owner else { return Err(Failure::new(USAGE, NO_OWNER)) };
        let is_id = owner.bytes().all(|byte| byte.is_ascii_digit()) && !owner.starts_with('0');
        if is_id && (1..=16).contains(&owner.len()) {
            return Ok(owner);
        }
        Err(Failure::new(
            USAGE,
            "--owner or LOCKHOUSE_OWNER must be the number that \"lockhouse owner open\" printed",
        ))
    }

    /// The value of a secret is not shown.
    pub(super) fn secret(&self) -> Result<&str, Failure> {
        let given = self.secret_file.as_ref().map(SecretFile::secret).or(self.secret.as_deref());
        let given = given.ok_or_else(|| Failure::new(USAGE, NO_OWNER))?;
        match given.parse::<Secret>() {
            Ok(_) => Ok(given),
            Err(_) => Err(Failure::new(USAGE, SECRET_RULE)),
        }
    }
}

const OPENED: Promised = &[("owner", Shape::Word), ("ownerSecret", Shape::Word), ("expiresAt", Shape::Word)];
const OWNER: Promised = &[
    ("label", Shape::Word),
    ("expiresAt", Shape::Word),
    (
        "locks",
        Shape::List(&[
            ("kind", Shape::Text),
            ("id", Shape::Text),
            ("mode", Shape::Word),
            ("fencingToken", Shape::Number),
        ]),
    ),
];

/// Ends an owner that no caller knows of.
async fn end(api: &BucketClient, opened: &Value) -> Result<(), Failure> {
    let [owner, secret] = ["owner", "ownerSecret"].map(|key| opened[key].as_str().unwrap_or_default());
    api.call_without_answer(Call::delete(&["owners", owner]).secret(secret), NO_CONTENT).await
}

/// In milliseconds, as the API has it.
pub(super) fn millis(length: Option<Duration>) -> Value {
    length.map_or(Value::Null, |length| json!(length.as_millis() as u64))
}

impl Owner {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let api = BucketClient::new(&self.target)?;
        match &self.command {
            Command::Open(new) => {
                let body = json!({
                    "label": new.label, "metadata": new.metadata, "ttlMs": millis(new.ttl), "maxMs": millis(new.max),
                });
                let opened = api.call(Call::post(&["owners"]).body(body.to_string()), OPENED).await?;
                let variables = || {
                    let [owner, secret] = [text(&opened, "owner"), text(&opened, "ownerSecret")];
                    vec![format!("LOCKHOUSE_OWNER={owner}"), format!("LOCKHOUSE_OWNER_SECRET={secret}")]
                };
                match print(self.json, &opened, variables) {
                    Ok(code) => Ok(code),
                    Err(failure) => Err(take_back(failure, end(&api, &opened).await)),
                }
            }
            Command::Beat(whose) => {
                let call = Call::post(&["owners", whose.owner()?, "heartbeat"]).secret(whose.secret()?);
                let beat = api.call(call, &[("expiresAt", Shape::Word)]).await?;
                print(self.json, &beat, || {
                    vec![format!("lives until {} unless it is active before", text(&beat, "expiresAt"))]
                })
            }
            Command::Show(whose) => {
                let call = Call::get(&["owners", whose.owner()?]).secret(whose.secret()?);
                let shown = api.call(call, OWNER).await?;
                print(self.json, &shown, || {
                    let head = format!(
                        "{} lives until {} unless it is active before",
                        text(&shown, "label"),
                        text(&shown, "expiresAt")
                    );
                    let locks = shown["locks"].as_array().into_iter().flatten();
                    std::iter::once(head)
                        .chain(locks.map(|lock| {
                            format!("{}  {}", record(lock), line(lock, &["mode", "fencingToken"]))
                        }))
                        .collect()
                })
            }
            Command::End(whose) => {
                let call = Call::delete(&["owners", whose.owner()?]).secret(whose.secret()?);
                api.call_without_answer(call, NO_CONTENT).await?;
                print(self.json, &json!({"owner": whose.owner()?, "ended": true}), Vec::new)
            }
        }
    }
}
