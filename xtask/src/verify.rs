//! `cargo xtask verify`: the quick gate. The command changes nothing but `target/`.

use std::path::Path;
use std::process::Command;

use crate::Verdict;
use crate::rings::{dist, interleavings};
use crate::workspace::cargo::PROFILE;
use crate::workspace::{shell, tree};

pub(crate) fn run() -> Verdict {
    let root = tree::root()?;
    let mut gates: Vec<Command> = lints(&root).into_iter().map(|(_, gate)| gate).collect();
    // A debug build, whose assertions are checked.
    let quick_tests =
        ["test", "--quiet", "-p", "lockhouse-core", "-p", "lockhouse", "-p", "xtask", "-p", "lab"];
    gates.push(with_env(cargo(&quick_tests), "RUST_BACKTRACE", "0"));
    for project in dist::PROJECTS {
        if root.join(project).join("node_modules").is_dir() {
            gates.push(npm_check(project));
        } else {
            println!("{project}: not checked, as its packages are not installed (npm ci)");
        }
    }
    let mut broken = Vec::new();
    for mut gate in gates {
        if !shell::run_shown(gate.current_dir(&root))?.is_success() {
            broken.push(shell::line(&gate));
        }
    }
    for gate in &broken {
        println!("failed: {gate}");
    }
    println!(
        "{}",
        if broken.is_empty() {
            "verified"
        } else {
            "not verified; `cargo xtask fix` mends what a machine can"
        }
    );
    Ok(broken.is_empty())
}

/// Format, lints and documentation of the Rust side, by name.
pub(crate) fn lints(root: &Path) -> Vec<(&'static str, Command)> {
    let format = ["fmt", "--all", "--check"];
    let lint = [
        "clippy",
        "--quiet",
        "--profile",
        PROFILE,
        "--workspace",
        "--all-targets",
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
    // A workspace of its own, which the build of the tests does not reach.
    let benchmarks = ["clippy", "--quiet", "--manifest-path", "bench/Cargo.toml", "--all-targets"];
    let mut benchmarks = cargo(&benchmarks);
    benchmarks.arg("--target-dir").arg(tree::target(root).join("bench")).args(["--", "-D", "warnings"]);
    vec![
        ("format", cargo(&format)),
        ("lints", cargo(&lint)),
        ("the library without features", cargo(&bare)),
        ("the benchmarks", benchmarks),
        ("lints under the scheduler", interleavings::lint(&tree::target(root))),
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
