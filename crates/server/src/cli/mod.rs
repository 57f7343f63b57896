//! One file per subcommand.

mod serve;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Something went wrong.
const FAILURE: u8 = 1;

/// The command line or the configuration makes no sense.
const USAGE: u8 = 2;

/// Locks for tabs, workers, processes and machines, with the semantics of the Web Locks API.
#[derive(Debug, Parser)]
#[command(name = "lockhouse", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
}

/// Carries out the command line.
pub(crate) fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    match command {
        Command::Serve(serve) => serve.run(),
    }
}

/// One line to stderr.
fn complain(message: impl std::fmt::Display) {
    // Without stderr there is nobody to tell.
    _ = writeln!(std::io::stderr(), "lockhouse: {message}");
}
