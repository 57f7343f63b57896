//! `cargo xtask`: the project's own commands. One file per command; the rings that `test` runs are the table in `rings.rs`.
//!
//! A library beside its program, so that the fuzzer can reach [`disagreement`].
#![allow(clippy::print_stdout, reason = "these commands talk to a terminal")]

mod bench;
mod crash;
mod dist;
mod fix;
mod fuzz;
mod history;
mod long;
mod matrix;
mod model;
mod mutants;
mod neighbours;
mod oracle;
mod panics;
mod random;
mod requirements;
mod results;
mod rings;
mod schemathesis;
mod secrets;
mod serving;
mod setup;
mod shell;
mod sim;
mod soak;
mod test;
mod tree;
mod verify;
mod ws;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use oracle::disagreement;

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
    /// Install what the tests need, build once, run every ring; the last line is the total
    Test(test::Args),
    /// The read-only gate before a commit: format, lints, docs, style, tests of core and library
    Verify,
    /// The writing twin of verify: lints with a remedy, format, built client
    Fix,
    /// Join docs/requirements.md with the tests that ran
    Requirements(requirements::Args),
    /// Plant each bug of tests/mutants in a copy of the tree; its ring must catch it
    Mutants(mutants::Args),
    /// Explore every state of a small world and check the promises in each
    Model(model::Args),
    /// Compare the core with a literal transcription of the specification, on random commands
    Oracle(oracle::Args),
    /// Play seeded schedules of faults over the library and its store, and judge what its clients were told
    Sim(sim::Args),
    /// Look for inputs that break a promise, with cargo-fuzz
    Fuzz(fuzz::Args),
    /// Judge a history that clients wrote while their server was killed and started again
    CheckHistory(history::Args),
    Crash(crash::Args),
    /// A process of clients of `crash`
    #[command(hide = true)]
    CrashWorker(crash::worker::Args),
    /// Try every route and every frame with every kind of credential on a real server
    Matrix(matrix::Args),
    /// Look for secrets in all logs that the last `cargo xtask test` left
    Secrets(secrets::Args),
    Soak(soak::Args),
    /// The process of visitors of `soak`
    #[command(hide = true)]
    SoakCrowd(soak::crowd::Args),
    Neighbours(neighbours::Args),
    /// The process of the neighbour of `neighbours`
    #[command(hide = true)]
    NeighboursCrowd(neighbours::crowd::Args),
    /// The long variants of the proofs, with their results in docs/evidence
    ///
    /// "fuzz" and "mutants" go on where they stopped: what their files tell already is not done again. To begin anew, delete the file first.
    Long(long::Args),
    /// Build and run the benchmarks of bench/
    Bench(bench::Args),
}

/// Runs the command that the arguments name; 0 if all held, 1 if something did not, 2 if that could not be judged.
pub fn run() -> ExitCode {
    if let Err(error) = shell::end_children_with_us() {
        println!("error: {error:#}");
        return ExitCode::from(NO_VERDICT);
    }
    let verdict = match Cli::parse().command {
        Command::Test(args) => test::run(&args),
        Command::Verify => verify::run(),
        Command::Fix => fix::run(),
        Command::Requirements(args) => requirements::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Oracle(args) => oracle::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::CheckHistory(args) => history::run(&args),
        Command::Crash(args) => crash::run(&args),
        Command::CrashWorker(args) => crash::worker::run(&args),
        Command::Matrix(args) => matrix::run(&args),
        Command::Secrets(args) => secrets::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::SoakCrowd(args) => soak::crowd::run(&args),
        Command::Neighbours(args) => neighbours::run(&args),
        Command::NeighboursCrowd(args) => neighbours::crowd::run(&args),
        Command::Long(args) => long::run(&args),
        Command::Bench(args) => bench::run(&args),
    };
    if let Err(error) = &verdict {
        println!("error: {error:#}");
    }
    ExitCode::from(exit_code(&verdict))
}

/// How a command ends when what it judges does not hold, and nothing else.
const FAILED: u8 = 1;

/// How a command ends that could not judge, or saw too little to judge by; a planted bug is not caught by that.
const NO_VERDICT: u8 = 2;

fn exit_code(verdict: &Verdict) -> u8 {
    match verdict {
        Ok(true) => 0,
        Ok(false) => FAILED,
        Err(_) => NO_VERDICT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_verdict_is_told_as_one() {
        let codes = [Ok(true), Ok(false), Err(anyhow::anyhow!("the server does not start"))];
        assert_eq!(codes.map(|verdict| exit_code(&verdict)), [0, 1, 2]);
    }
}
