//! `lockhouse token`

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lockhouse_cli::exit::{FAILURE, Failure, USAGE, complain};
use lockhouse_cli::print::print;
use lockhouse_server::Sources;
use lockhouse_server::auth::{Authority, Taken, Unproven, key_id};
use serde_json::{Map, Value, json};

use crate::options::load;

/// Inspect API keys and tokens; needs no server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse token inspect < token
  lockhouse token inspect --config lockhouse.toml token

Exit codes:
   0 done
   1 the key or token is not accepted
   2 wrong usage")]
pub(crate) struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what a key or token contains; with --config, also whether a server accepts it, and what it
    /// permits
    Inspect(Inspect),
}

#[derive(Debug, Args)]
struct Inspect {
    /// The file with the key or token [default: stdin]. It is never given on the command line, where others
    /// can see it
    file: Option<PathBuf>,

    /// The settings file to check it against, together with the environment, as serve would
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_CONFIG")]
    config: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Token {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let Command::Inspect(inspect) = self.command;
        inspect.run()
    }
}

impl Inspect {
    fn run(self) -> Result<ExitCode, Failure> {
        let text = self.read()?;
        let text = text.trim();
        let mut inspected = Map::new();
        match (Unproven::read(text), key_id(text)) {
            (Some(Unproven { header, claims }), _) => {
                inspected.insert("header".to_owned(), header);
                inspected.insert("claims".to_owned(), claims);
            }
            (None, Some(id)) => {
                inspected.insert("key".to_owned(), json!({"id": id}));
            }
            (None, None) => return Err(Failure::new(USAGE, "this is neither an API key nor a token")),
        }
        if let Some(config) = &self.config {
            let Some(authority) = authority(config) else { return Ok(ExitCode::from(USAGE)) };
            let accepted = authority.inspect(text);
            let accepted =
                accepted.map_err(|why| Failure::new(FAILURE, format_args!("not accepted: {why}")))?;
            inspected.insert("accepted".to_owned(), view(&accepted));
        }
        let inspected = Value::Object(inspected);
        print(self.json, &inspected, || lines(&inspected))
    }

    fn read(&self) -> Result<String, Failure> {
        let read = match &self.file {
            Some(file) => fs::read_to_string(file).map_err(|error| (file.display().to_string(), error)),
            None => {
                let mut text = String::new();
                io::stdin()
                    .read_to_string(&mut text)
                    .map(|_| text)
                    .map_err(|error| ("stdin".to_owned(), error))
            }
        };
        read.map_err(|(place, error)| Failure::new(USAGE, format_args!("cannot read {place}: {error}")))
    }
}

/// The authority that `serve` would go by, with the environment; none if the settings make no sense, which is
/// reported then.
fn authority(config: &Path) -> Option<Authority> {
    let loaded = load(&Sources::of_process(Some(config.to_owned())))?;
    loaded.authority().map_err(complain).ok()
}

fn view(taken: &Taken) -> Value {
    let buckets = taken.buckets.iter().map(|(pattern, permissions)| {
        let words: Vec<&str> = permissions.iter().map(|permission| permission.word()).collect();
        (pattern.clone(), json!(words))
    });
    json!({
        "name": taken.name,
        "tenant": taken.tenant,
        "session": taken.session,
        "isolateOrigins": taken.isolates_origins,
        "buckets": buckets.collect::<Map<_, _>>(),
        "expiresAt": taken.expires_at.map(|at| humantime::format_rfc3339_millis(at).to_string()),
    })
}

/// One line for each member of each part.
fn lines(inspected: &Value) -> Vec<String> {
    let parts = inspected.as_object().into_iter().flatten();
    let lines = parts.flat_map(|(part, members)| {
        let members = members.as_object().into_iter().flatten();
        members.filter(|(_, value)| !value.is_null()).map(move |(key, value)| match instant(key, value) {
            Some(at) => format!("{part} {key} {value} {at}"),
            None => format!("{part} {key} {value}"),
        })
    });
    lines.collect()
}

/// Seconds since 1970 as people read them.
fn instant(key: &str, value: &Value) -> Option<String> {
    let seconds = value.as_f64().filter(|_| matches!(key, "exp" | "nbf" | "iat"))?;
    let since = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    // The last second that the format can show.
    let at = std::time::UNIX_EPOCH.checked_add(since).filter(|_| since.as_secs() < 253_402_300_800)?;
    Some(humantime::format_rfc3339_seconds(at).to_string())
}
