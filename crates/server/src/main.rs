//! The command line of lockhouse.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
