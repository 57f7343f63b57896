//! `cargo xtask`: the project's own commands. One file or folder per command.
#![allow(clippy::print_stdout, reason = "these commands talk to a terminal")]

mod model;
mod oracle;
mod panics;
mod random;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a command says when it ran to its end: did everything hold?
type Verdict = anyhow::Result<bool>;

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "The project's own commands",
    max_term_width = 110
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Explore every state of a small world and check the promises in each
    Model(model::Args),
    /// Compare the core with a literal transcription of the specification, on random commands
    Oracle(oracle::Args),
}

fn main() -> ExitCode {
    let verdict = match Cli::parse().command {
        Command::Model(args) => model::run(&args),
        Command::Oracle(args) => oracle::run(&args),
    };
    match verdict {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
