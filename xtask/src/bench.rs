//! `cargo xtask bench`: the benchmarks are a workspace of their own, so that their peers stay out of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args as ClapArgs;

use crate::workspace::{shell, tree};
use crate::{Verdict, stale};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Which suite: inproc, server, durable or cluster; all if none is named
    suite: Option<String>,
    /// How often ours and each peer are measured in turn
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Only the rows whose id begins so
    #[arg(long, value_name = "ID")]
    only: Option<String>,
    /// Measure this program instead of building lockhouse, such as one of an earlier commit
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Of the suite durable, only the rows in which syncs count, on a disk on which each takes so much longer
    #[arg(long, value_name = "MS")]
    slow_syncs: Option<u64>,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure nothing: list the results in docs/evidence that are older than the code they speak of
    #[arg(long, exclusive = true)]
    stale: bool,
    /// Measure nothing: write docs/benchmarks.md and its plots from the figures in docs/evidence
    #[arg(long, exclusive = true)]
    publish: bool,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    if args.stale {
        return list_stale(&root).map(|_| true);
    }
    let mut command = Command::new("cargo");
    command.args(["run", "--profile", "measured", "--package", "lockhouse-bench", "--manifest-path"]);
    command.arg(root.join("Cargo.toml")).arg("--").args(&args.suite);
    if let Some(rounds) = args.rounds {
        command.arg("--rounds").arg(rounds.to_string());
    }
    if let Some(only) = &args.only {
        command.arg("--only").arg(only);
    }
    if let Some(program) = &args.program {
        command.arg("--program").arg(program);
    }
    if let Some(longer) = args.slow_syncs {
        command.arg("--slow-syncs").arg(longer.to_string());
    }
    if let Some(json) = &args.json {
        command.arg("--json").arg(json);
    }
    if args.publish {
        command.arg("--publish");
    }
    Ok(shell::run_shown(&mut command)?.is_success())
}

/// Prints the results that are older than the code they speak of, and says whether there are none.
pub(crate) fn list_stale(root: &Path) -> Verdict {
    let stale = stale::stale(root)?;
    stale.iter().for_each(|stale| println!("{stale}"));
    Ok(stale.is_empty())
}
