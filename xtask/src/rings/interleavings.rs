//! The ring that runs the library under a scheduler, which chooses the thread that goes on.

use std::fs;
use std::process::Command;

use anyhow::Result;

use super::results::{self, TestRun};
use super::{Run, checked};
use crate::workspace::cargo::{PROFILE, WHOLE};

/// The name of the ring, of its package, of its program, and of the suite.
pub(crate) const NAME: &str = "interleavings";

/// Cargo on these tests.
pub(crate) fn tests(profile: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.arg("test").args(profile).args(WHOLE).args(["--test", NAME, "--no-fail-fast"]);
    cargo
}

pub(super) fn ring(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let end = run.logged(&mut tests(&["--profile", PROFILE]))?;
    checked(results::read_harness(&fs::read_to_string(&run.log)?, |_| None, NAME), end)
}
