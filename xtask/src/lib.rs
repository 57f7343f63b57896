//! `cargo xtask`: the project's own commands. One file per command; the rings that `test` runs are the table
//! in `rings/mod.rs`.
//!
//! No command here depends on the product, so all of them work while the product does not compile. The
//! commands that need the product are in the laboratory, a program of its own, which uses this library.
#![allow(clippy::print_stdout, reason = "these commands talk to a terminal")]

mod bench;
mod fix;
mod fuzz;
mod lab;
mod libraries;
mod long;
mod measure;
mod mutants;
mod mutate;
mod requirements;
mod rings;
mod secrets;
mod stale;
pub mod style;
mod verify;
pub mod workspace;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// The verdict of a command that ran to its end: whether everything held.
pub type Verdict = anyhow::Result<bool>;

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
    Test(rings::test::Args),
    /// The read-only gate before a commit: format, lints, docs, style, tests of core and library
    Verify,
    /// The writing twin of verify: lints with a remedy, width of comments, format, built client
    Fix(fix::Args),
    /// Measure the house: files, circles, functions, comments
    Measure(measure::Args),
    /// Try the promises of every store on a real database
    Conformance(rings::conformance::Args),
    /// Join docs/requirements.md with the tests that ran
    Requirements(requirements::Args),
    /// Plant each bug of tests/mutants in a copy of the tree; its ring must catch it
    Mutants(mutants::Args),
    /// Change core and outbox in every small way that cargo-mutants knows; the tests must notice each
    Mutate(mutate::Args),
    /// Explore every state of a small world and check the promises in each
    Model(lab::Args),
    /// Compare the core with a literal transcription of the specification, on random commands
    Oracle(lab::Args),
    /// Play seeded schedules of faults over the library and its store, and judge what its clients were told
    Sim(lab::Args),
    /// Look for inputs that break a promise, with cargo-fuzz
    Fuzz(fuzz::Args),
    /// Judge a history that clients wrote while their server was killed and started again
    CheckHistory(lab::Args),
    /// Kill the server, or let its disk fail, while clients work, and judge what they wrote down
    Crash(lab::Args),
    /// Let parts of a fleet fail while clients work, and judge what they wrote down
    Chaos(lab::Args),
    /// Try every route and every frame with every kind of credential on a real server
    Matrix(lab::Args),
    /// Look for secrets in all logs that the last `cargo xtask test` left
    Secrets(secrets::Args),
    /// Keep a crowd of connections busy, and see whether the server gives back all that it took for them
    Soak(lab::Args),
    /// Put a tenant that is at all of its limits beside another one, and see whether that one is told
    /// anything else for it
    Neighbours(lab::Args),
    /// Count the instructions of the hot paths, and compare them with those that were accepted
    Guard(lab::Args),
    /// Start a fleet of servers over a PostgreSQL of its own, show what moves, and stop all at Ctrl-C
    LocalCluster(lab::Args),
    /// Kill the owner of some buckets again and again, and measure when others go on in its place
    Failover(lab::Args),
    /// Run the suite of the JavaScript client against a node of a fleet that has no slot
    JsFleet(lab::Args),
    /// Run fleets in virtual time, and count what they ask of their database and how soon they recover
    Scale(lab::Args),
    /// Run libraries that are built on Web Locks in tabs of Chromium, on the client and natively
    Libraries(libraries::Args),
    /// Open each page of the dashboard in Chromium, on a server with 10^5 locks
    DashboardCheck(rings::dashboard::Args),
    /// The long variants of the proofs, with their results in docs/evidence
    ///
    /// "fuzz" and "mutants" go on where they stopped: what their files tell already is not done again. To
    /// begin anew, delete the file first.
    Long(long::Args),
    /// Build and run the benchmarks of bench/
    Bench(bench::Args),
}

/// Runs the command that the arguments name, and ends as [`conclude`] says.
pub fn run() -> ExitCode {
    conclude(|| match Cli::parse_from(arguments()).command {
        Command::Test(args) => rings::test::run(&args),
        Command::Verify => verify::run(),
        Command::Fix(args) => fix::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Conformance(args) => rings::conformance::run(&args),
        Command::Requirements(args) => requirements::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::Mutate(args) => mutate::run(&args),
        Command::Model(args) => lab::run("model", &args),
        Command::Oracle(args) => lab::run("oracle", &args),
        Command::Sim(args) => lab::run("sim", &args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::CheckHistory(args) => lab::run("check-history", &args),
        Command::Crash(args) => lab::run("crash", &args),
        Command::Chaos(args) => lab::run("chaos", &args),
        Command::Matrix(args) => lab::run("matrix", &args),
        Command::Secrets(args) => secrets::run(&args),
        Command::Soak(args) => lab::run("soak", &args),
        Command::Neighbours(args) => lab::run("neighbours", &args),
        Command::Guard(args) => lab::run("guard", &args),
        Command::LocalCluster(args) => lab::run("local-cluster", &args),
        Command::Failover(args) => lab::run("failover", &args),
        Command::JsFleet(args) => lab::run("js-fleet", &args),
        Command::Scale(args) => lab::run("scale", &args),
        Command::Libraries(args) => libraries::run(&args),
        Command::DashboardCheck(args) => rings::dashboard::run(&args),
        Command::Long(args) => long::run(&args),
        Command::Bench(args) => bench::run(&args),
    })
}

/// Our arguments. `help NAME` is asked as `NAME --help`, as only the laboratory can explain its own commands.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = env::args_os().collect();
    if arguments.len() == 3 && arguments[1] == "help" {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// All commands, as clap knows them.
pub fn commands() -> clap::Command {
    Cli::command()
}

/// Runs a command; 0 if all held, 1 if something did not, 2 if that could not be judged. All processes that
/// it starts end with it.
pub fn conclude(command: impl FnOnce() -> Verdict) -> ExitCode {
    let verdict = workspace::shell::end_children_with_us().and_then(|()| command());
    if let Err(error) = &verdict {
        println!("error: {error:#}");
    }
    ExitCode::from(exit_code(&verdict))
}

/// The exit code of a command whose subject does not hold, and of nothing else.
const FAILED: u8 = 1;

/// The exit code of a command that could not judge, or saw too little to judge by. A planted bug is not
/// caught by that.
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
    fn only_a_verdict_exits_as_a_verdict() {
        let codes = [Ok(true), Ok(false), Err(anyhow::anyhow!("the server does not start"))];
        assert_eq!(codes.map(|verdict| exit_code(&verdict)), [0, 1, 2]);
    }
}
