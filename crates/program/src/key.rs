//! `lockhouse key`

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use lockhouse_cli::exit::{FAILURE, Failure, USAGE};
use lockhouse_server::auth::{Authority, DEFAULT_TENANT, KeySettings, NewKey, Permission, Settings};
use serde::Serialize;

/// Make API keys.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse key new --bucket orders --permission request >> lockhouse.toml
  lockhouse key new --id billing --tenant acme --bucket 'seats*' \\
    --permission claim --permission query

Exit codes:
   0 done
   1 failure
   2 wrong usage")]
pub(crate) struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key: prints its entry for the settings file, with its hash only, and shows the key itself once,
    /// on stderr
    New(New),
}

#[derive(Debug, Args)]
struct New {
    /// The name of the key, in logs, too
    #[arg(long, value_name = "ID", default_value = "key")]
    id: String,

    /// The tenant that the key belongs to; tenants are isolated from each other
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TENANT)]
    tenant: String,

    /// The name of a private session, which is a tenant of its own
    #[arg(long, value_name = "NAME")]
    session: Option<String>,

    /// Give each web origin lock tables of its own
    #[arg(long)]
    isolate_origins: bool,

    /// A bucket: its name, or a prefix that ends in *; may be given several times
    #[arg(long = "bucket", value_name = "NAME", default_value = "*")]
    buckets: Vec<String>,

    /// A permission in these buckets; may be given several times. docs/http.md says what each permits
    #[arg(long = "permission", value_name = PERMISSIONS, required = true)]
    permissions: Vec<Word>,
}

/// All of them, so that the error without one names them.
const PERMISSIONS: &str = "request|steal|query|offline|claim|operate";

/// A permission on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Word {
    Request,
    Steal,
    Query,
    Offline,
    Claim,
    Operate,
}

impl From<Word> for Permission {
    fn from(word: Word) -> Self {
        match word {
            Word::Request => Self::Request,
            Word::Steal => Self::Steal,
            Word::Query => Self::Query,
            Word::Offline => Self::Offline,
            Word::Claim => Self::Claim,
            Word::Operate => Self::Operate,
        }
    }
}

/// The printed section `[auth]`, as the configuration has it.
#[derive(Serialize)]
struct Section {
    auth: Settings,
}

impl Key {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let Command::New(new) = self.command;
        let Some(key) = NewKey::draw(&new.id) else {
            let rule = "must be 1 to 64 of a-z, 0-9 and -";
            return Err(Failure::new(USAGE, format_args!("--id: is {:?}, but {rule}", new.id)));
        };
        let permissions: Vec<Permission> = new.permissions.into_iter().map(Permission::from).collect();
        let buckets: BTreeMap<_, _> =
            new.buckets.into_iter().map(|bucket| (bucket, permissions.clone())).collect();
        let settings = KeySettings {
            id: new.id,
            hash: key.hash,
            tenant: new.tenant,
            isolate_origins: new.isolate_origins,
            session: new.session,
            buckets,
        };
        let auth = Settings { keys: vec![settings], ..Settings::default() };
        Authority::new(&auth)
            .map_err(|bad| Failure::new(USAGE, format_args!("{}: {}", option(&bad.field), bad.why)))?;
        let section = toml::to_string(&Section { auth }).map_err(|error| Failure::new(FAILURE, error))?;
        print_key(&section, &key.text).map_err(|error| Failure::new(FAILURE, error))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The option of a member of the printed entry.
fn option(member: &str) -> String {
    let member = member.rsplit_once("keys[0].").map_or(member, |(_, member)| member);
    if member.starts_with("buckets") { "--bucket".to_owned() } else { format!("--{member}") }
}

/// The key goes another way than the section, which is to be appended to a file.
fn print_key(section: &str, key: &str) -> io::Result<()> {
    let mut out = io::stdout();
    write!(out, "\n{section}")?;
    out.flush()?;
    writeln!(io::stderr(), "\nThe key, which is shown only once: LOCKHOUSE_KEY={key}")
}
