//! The settings with which cargo builds: one set of features and one profile for everything, so that nothing
//! is built twice.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::workspace::tree;

/// One set of features for everything that is built, with whatever profile. No test needs the benchmarks.
pub(crate) const WHOLE: [&str; 4] = ["--workspace", "--exclude", "lockhouse-bench", "--all-features"];

/// The profile, and the folder of its programs: one, too, so that CI builds once.
pub(crate) const PROFILE: &str = "checks";

pub(crate) const BUILD: [&str; 6] = ["--profile", PROFILE, WHOLE[0], WHOLE[1], WHOLE[2], WHOLE[3]];

/// Builds a program of the workspace and returns its path. The compiler's messages go to our own output.
///
/// # Errors
///
/// The program does not build.
pub fn program(root: &Path, name: &str) -> Result<PathBuf> {
    println!("building {name}; from scratch that takes some minutes");
    let mut cargo = Command::new("cargo");
    let status =
        cargo.arg("build").args(BUILD).args(["--bin", name, "--quiet"]).current_dir(root).status()?;
    ensure!(status.success(), "{name}: {status}");
    Ok(tree::target(root).join(PROFILE).join(name))
}
