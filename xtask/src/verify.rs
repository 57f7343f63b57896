//! `cargo xtask verify`: the quick gate. The command changes nothing but `target/`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::Verdict;
use crate::rings::schedule::{self, Demand};
use crate::rings::{dist, run};
use crate::workspace::cargo::PROFILE;
use crate::workspace::{shell, tree};

/// One thing that must hold.
struct Gate {
    name: &'static str,
    command: Command,
    demand: Demand,
}

pub(crate) fn run() -> Verdict {
    let root = tree::root()?;
    let started = Instant::now();
    let gates = gates(&root);
    let names: Vec<&str> = gates.iter().map(|gate| gate.name).collect();
    let judged = schedule::run(gates, |gate| gate.demand, |gate| judge(&root, gate));
    let mut broken = Vec::new();
    for (name, holds) in names.into_iter().zip(judged) {
        if !holds? {
            broken.push(name);
        }
    }
    let seconds = started.elapsed().as_secs();
    if broken.is_empty() {
        println!("verified in {seconds} s");
    } else {
        let broken = broken.join(", ");
        println!("not verified: {broken} ({seconds} s); `cargo xtask fix` mends what a machine can");
    }
    Ok(broken.is_empty())
}

/// The gates. Cargo lets only one of the lints build at a time, so they have the same needs: one of them runs
/// beside one of the others.
fn gates(root: &Path) -> Vec<Gate> {
    // A debug build, whose assertions are checked.
    let tests = if shell::exists("cargo-nextest") { &["nextest", "run"][..] } else { &["test", "--quiet"] };
    let packages = ["lockhouse-core", "lockhouse", "library-tests", "xtask", "lab", "proofs"]
        .map(|package| ["-p", package]);
    let mut quick_tests = cargo(tests);
    quick_tests.args(packages.as_flattened()).env("RUST_BACKTRACE", "0");
    let mut gates = vec![Gate { name: "tests", command: quick_tests, demand: Demand::Little }];
    for project in dist::PROJECTS {
        if root.join(project).join("node_modules").is_dir() {
            gates.push(Gate { name: project, command: npm_check(project), demand: Demand::Little });
        } else {
            println!("{project}: not checked, as its packages are not installed (npm ci)");
        }
    }
    let lints = lints().into_iter();
    gates.extend(lints.map(|(name, command)| Gate { name, command, demand: Demand::Cores }));
    gates
}

/// Runs a gate, and shows its output if it does not hold.
fn judge(root: &Path, mut gate: Gate) -> Result<bool> {
    let started = Instant::now();
    let log = run::log_of(root, &format!("verify-{}", gate.name.replace([' ', '/'], "-")))?;
    let _ = fs::remove_file(&log);
    let end = shell::run_logged(gate.command.current_dir(root), &log, run::NO_LIMIT)?;
    let seconds = started.elapsed().as_secs();
    if end.is_success() {
        println!("── {:<28} ok in {seconds} s", gate.name);
    } else {
        let (output, command) = (run::last_lines(&log), shell::line(&gate.command));
        println!("{output}\n── {:<28} FAILED in {seconds} s ({end}): {command}", gate.name);
    }
    Ok(end.is_success())
}

/// Format, lints and documentation of the Rust side, by name.
pub(crate) fn lints() -> Vec<(&'static str, Command)> {
    let format = ["fmt", "--all", "--check"];
    // The documentation needs the same packages, with the benchmarks, so that what is checked of their
    // dependencies serves both. `--all-targets` would take libraries for tests that have none, such as the
    // one of the interleavings.
    let lint = [
        "clippy",
        "--quiet",
        "--profile",
        PROFILE,
        "--workspace",
        "--lib",
        "--bins",
        "--examples",
        "--tests",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ];
    let document = [
        "doc",
        "--quiet",
        "--profile",
        PROFILE,
        "--workspace",
        "--all-features",
        "--no-deps",
        "--document-private-items",
    ];
    // Users compile the library with few features, where `--all-features` hides what is missing.
    let bare = ["clippy", "--quiet", "--profile", PROFILE, "-p", "lockhouse", "--", "-D", "warnings"];
    vec![
        ("format", cargo(&format)),
        ("lints", cargo(&lint)),
        ("the library without features", cargo(&bare)),
        ("documentation", with_env(cargo(&document), "RUSTDOCFLAGS", "-D warnings")),
    ]
}

/// Format, lints and types of a project that npm builds.
pub(crate) fn npm_check(project: &str) -> Command {
    let mut check = Command::new("npm");
    check.args(["run", "--silent", "check", "--prefix", project]);
    check
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args);
    command
}

fn with_env(mut command: Command, key: &str, value: &str) -> Command {
    command.env(key, value);
    command
}
