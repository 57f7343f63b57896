//! All commands: a file or a folder each.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use lockhouse_cli::exit::{FAILURE, Failure, complain};

use crate::{backup, cluster, completions, config, doctor, key, serve, token};

/// Locks for tabs, workers, processes and machines, with the semantics of the Web Locks API.
#[derive(Debug, Parser)]
#[command(name = "lockhouse", version, max_term_width = 110)]
#[command(after_help = "\
Start a server with \"lockhouse serve\". Then, in another terminal: lockhouse run NAME -- COMMAND")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Serve>),
    Config(config::Config),
    Doctor(Box<doctor::Doctor>),
    #[command(flatten)]
    Client(lockhouse_cli::Command),
    Key(key::Key),
    Token(token::Token),
    Cluster(cluster::Cluster),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Completions(completions::Completions),
}

/// Carries out the command line.
pub(crate) fn main() -> ExitCode {
    let matches = deaf_to_empty(command_line()).get_matches();
    let Cli { command } = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match command {
        Command::Serve(serve) => serve.run(),
        Command::Config(config) => config.run(),
        Command::Doctor(doctor) => finish(doctor.run()),
        Command::Client(client) => finish(client.run()),
        Command::Key(key) => finish(std::future::ready(key.run())),
        Command::Token(token) => finish(std::future::ready(token.run())),
        Command::Cluster(cluster) => finish(cluster.run()),
        Command::Backup(backup) => finish(backup.run()),
        Command::Restore(restore) => finish(restore.run()),
        Command::Completions(completions) => completions.run(&mut command_line()),
    }
}

/// All commands. An inner one without examples and exit codes of its own has those of the command around it.
fn command_line() -> clap::Command {
    Cli::command().mut_subcommands(|outer| {
        let Some(help) = outer.get_after_help().cloned() else { return outer };
        outer.mut_subcommands(|inner| match inner.get_after_help() {
            Some(_) => inner,
            None => inner.after_help(help.clone()),
        })
    })
}

/// A variable that is empty says nothing.
fn deaf_to_empty(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| if arg.get_env().is_some_and(is_empty) { arg.env(Resettable::Reset) } else { arg })
        .mut_subcommands(deaf_to_empty)
}

/// Carries out a command that talks to a server.
fn finish(command: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => Err(Failure::new(FAILURE, format_args!("cannot start: {error}"))),
    };
    result.unwrap_or_else(|Failure { code, message }| {
        complain(message);
        ExitCode::from(code)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The lines of the commands that a page of the dashboard teaches: of the texts in each `command=`.
    fn taught(page: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for given in page.split("command=").skip(1) {
            // A value ends where its line or its tag does; no command has a `>`.
            let value = given.split(['\n', '>']).next().unwrap_or_default();
            let quotes = if value.starts_with('{') { ['\'', '`'] } else { ['"', '"'] };
            // What stands between quotes is every second piece.
            let texts = value.split(quotes).skip(1).step_by(2);
            lines.extend(texts.flat_map(|text| text.split("\\n")).map(str::to_owned));
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    #[test]
    fn every_command_that_the_dashboard_teaches_is_one() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard/src/pages");
        let mut checked = 0;
        for page in fs::read_dir(pages).unwrap() {
            let path = page.unwrap().path();
            for line in taught(&fs::read_to_string(&path).unwrap()) {
                // Of `export $(COMMAND)`, which keeps what the command prints, the command is looked at.
                let inner = line.strip_prefix("export $(").and_then(|rest| rest.strip_suffix(')'));
                // A name that the page puts in is one word; the bucket is an option in front of the others.
                let command = inner.unwrap_or(&line).replace("${word}", "word");
                let options = ["${bucketOption(bucket.value)}", "${option}"];
                let command = options.iter().fold(command, |text, it| text.replace(it, " --bucket jobs"));
                let place = path.display();
                if command.starts_with("cargo xtask ") {
                    continue;
                }
                assert!(command.starts_with("lockhouse "), "{place}: {line:?} is no command of lockhouse");
                assert!(
                    !command.contains(['\'', '"', '\\', '$']),
                    "{place}: {line:?} is not split at blanks alone"
                );
                let parsed = command_line().try_get_matches_from(command.split_whitespace());
                assert!(parsed.is_ok(), "{place}: {line:?}: {}", parsed.unwrap_err());
                checked += 1;
            }
        }
        assert!(checked >= 11, "only {checked} commands are found");
    }

    #[test]
    fn the_help_of_every_command_has_its_exit_codes() {
        let mut left = vec![command_line()];
        while let Some(command) = left.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let is_root = command.get_name() == "lockhouse";
            assert!(is_root || help.contains("Exit codes:"), "{}", command.get_name());
            left.extend(command.get_subcommands().cloned());
        }
    }
}
