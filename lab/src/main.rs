//! The laboratory: the proofs of `cargo xtask` that need the product, one module for each command. They are a
//! program of their own, so that the other commands neither wait for the product nor need it to compile.
//!
//! The proofs that compute are in the package [`proofs`].
#![allow(clippy::print_stdout, reason = "these commands talk to a terminal")]

mod chaos;
mod cluster;
mod crash;
mod fence;
mod matrix;
mod neighbours;
mod serving;
mod soak;
mod ws;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use proofs::{guard, history, model, oracle, scale, sim};
use xtask::Verdict;

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "The project's proofs",
    max_term_width = 110
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// `cargo xtask` lists all of these but the hidden ones, in the same words.
#[derive(Debug, Subcommand)]
enum Command {
    /// Explore every state of a small world and check the promises in each
    Model(model::Args),
    /// Compare the core with a literal transcription of the specification, on random commands
    Oracle(oracle::Args),
    /// Play seeded schedules of faults over the library and its store, and judge what its clients were told
    Sim(sim::Args),
    /// Judge a history that clients wrote while their server was killed and started again
    CheckHistory(history::Args),
    Crash(crash::Args),
    /// A process of clients of `crash`
    #[command(hide = true)]
    CrashWorker(crash::worker::Args),
    Chaos(chaos::Args),
    /// The run of `chaos`, in namespaces of its own
    #[command(hide = true)]
    ChaosRun(chaos::Args),
    /// A process of clients of `chaos`
    #[command(hide = true)]
    ChaosWorker(chaos::worker::Args),
    /// Try every route and every frame with every kind of credential on a real server
    Matrix(matrix::Args),
    Soak(soak::Args),
    /// The process of visitors of `soak`
    #[command(hide = true)]
    SoakCrowd(soak::crowd::Args),
    Neighbours(neighbours::Args),
    /// Start a fleet of servers over a PostgreSQL of its own, show what moves, and stop all at Ctrl-C
    LocalCluster(cluster::Args),
    /// Kill the owner of some buckets again and again, and measure when others go on in its place
    Failover(cluster::failover::Args),
    JsFleet(cluster::suite::Args),
    Scale(scale::Args),
    Guard(guard::Args),
    #[command(hide = true)]
    GuardPath(guard::PathArgs),
    /// The process of the neighbour of `neighbours`
    #[command(hide = true)]
    NeighboursCrowd(neighbours::crowd::Args),
}

/// Runs the command that the arguments name, and ends as `cargo xtask` does.
fn main() -> ExitCode {
    xtask::conclude(|| match Cli::parse().command {
        Command::Model(args) => model::run(&args),
        Command::Oracle(args) => oracle::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::CheckHistory(args) => history::run(&args),
        Command::Crash(args) => crash::run(&args),
        Command::CrashWorker(args) => crash::worker::run(&args),
        Command::Chaos(args) => chaos::run(&args),
        Command::ChaosRun(args) => chaos::run_apart(&args),
        Command::ChaosWorker(args) => chaos::worker::run(&args),
        Command::Matrix(args) => matrix::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::SoakCrowd(args) => soak::crowd::run(&args),
        Command::Neighbours(args) => neighbours::run(&args),
        Command::LocalCluster(args) => cluster::run(&args),
        Command::Failover(args) => cluster::failover::run(&args),
        Command::JsFleet(args) => cluster::suite::run(&args),
        Command::Scale(args) => scale::run(&args),
        Command::Guard(args) => guard::run(&args),
        Command::GuardPath(args) => guard::run_path(&args),
        Command::NeighboursCrowd(args) => neighbours::crowd::run(&args),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn cargo_xtask_lists_these_commands_in_the_same_words() {
        let listed = xtask::commands();
        let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let other = listed.find_subcommand(name).unwrap_or_else(|| panic!("{name} is not listed"));
            assert_eq!(about(other), about(command), "{name}");
        }
    }
}
