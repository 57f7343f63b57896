//! `lockhouse config`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lockhouse_cli::exit::{FAILURE, USAGE, complain};
use lockhouse_server::Sources;

use crate::options::{SettingsArgs, load};

/// Check or show the settings of a server without starting it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse config check /etc/lockhouse.toml
  LOCKHOUSE_LEASE=5s lockhouse config show --config /etc/lockhouse.toml

Exit codes:
   0 done
   1 failure
   2 something is wrong with the settings")]
pub(crate) struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Check(Check),
    Show(Box<Show>),
}

/// Print each fault of a settings file in one line: file and line, key, value, rule.
///
/// The files that it names are read, too. The environment is ignored.
#[derive(Debug, Args)]
struct Check {
    /// The TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Print the settings in force as TOML, each with its source; secrets are left out.
#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    options: SettingsArgs,
}

impl Config {
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            ConfigCommand::Check(Check { file }) => check(file),
            ConfigCommand::Show(show) => print(&show.options.sources()),
        }
    }
}

fn check(file: PathBuf) -> ExitCode {
    let wrong = Sources { file: Some(file), ..Sources::default() }.check();
    wrong.iter().for_each(complain);
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(USAGE) }
}

fn print(sources: &Sources) -> ExitCode {
    let Some(loaded) = load(sources) else { return ExitCode::from(USAGE) };
    match std::io::stdout().write_all(loaded.show().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILURE),
    }
}
