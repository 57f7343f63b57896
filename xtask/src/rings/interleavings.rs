//! The ring that runs the library under a scheduler, which chooses the thread that goes on. What it judges is
//! built for that alone, in a folder of its own: the other builds stay as they are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::results::{self, TestRun};
use super::run::HANG;
use super::{Run, checked};
use crate::workspace::cargo::PROFILE;
use crate::workspace::tree;

/// The name of the ring, of its package, and of the suite.
pub(crate) const NAME: &str = "interleavings";

/// How long the tests take on two cores, once they are built.
const USUAL_S: u64 = 30;

/// Where these tests are built, below the folder of the others.
pub(crate) fn target(of_others: &Path) -> PathBuf {
    of_others.join("shuttle")
}

/// Cargo on these tests, which are built below that folder.
pub(crate) fn tests(of_others: &Path, profile: &[&str]) -> Command {
    let mut cargo = under_the_scheduler(of_others, "test");
    cargo.args(profile).args(["--package", NAME, "--lib", "--no-fail-fast"]);
    cargo
}

/// Clippy on these tests and the library, as the scheduler runs it.
pub(crate) fn lint(of_others: &Path) -> Command {
    let mut cargo = under_the_scheduler(of_others, "clippy");
    cargo.args(["--quiet", "--profile", PROFILE, "--package", NAME, "--all-targets", "--", "-D", "warnings"]);
    cargo
}

fn under_the_scheduler(of_others: &Path, command: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.arg(command).arg("--target-dir").arg(target(of_others));
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    cargo.env("RUSTFLAGS", format!("{flags} --cfg shuttle").trim_start());
    cargo
}

pub(super) fn ring(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let tests = || tests(&tree::target(run.root), &["--profile", PROFILE]);
    run.must(tests().arg("--no-run"))?;
    let deadline = Instant::now() + Duration::from_secs(HANG * USUAL_S);
    let run =
        Run { root: run.root, log: run.log.clone(), deadline: Some(deadline), is_behind: run.is_behind };
    let end = run.logged(&mut tests())?;
    checked(results::read_harness(&fs::read_to_string(&run.log)?, |_| None, NAME), end)
}
