//! The dashboard in a real browser: as a ring, and as the command `cargo xtask dashboard-check`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;

use super::{Run, built_server, dist, node_results, node_tests, test_files};
use crate::Verdict;
use crate::rings::results::TestRun;
use crate::workspace::{cargo, setup, shell, tree};

pub(crate) const NAME: &str = "dashboard";

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Keep a picture of each page in dark, light and the width of a phone in this folder
    #[arg(long, value_name = "DIR")]
    screenshots: Option<PathBuf>,
}

/// Runs the tests on the server that the build made.
pub(crate) fn ring(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let (mut node, report) = tests(run.root, &built_server(run)?)?;
    let end = run.logged(&mut node)?;
    node_results(&report, end)
}

/// Builds the server, and runs the tests with their output shown.
pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    setup::browser(&root)?;
    let server = cargo::program(&root, "lockhouse")?;
    let (mut node, report) = tests(&root, &server)?;
    if let Some(folder) = &args.screenshots {
        let folder = std::path::absolute(folder).context("the folder of the pictures")?;
        node.env("SCREENSHOTS", folder);
    }
    let end = shell::run_shown(&mut node)?;
    Ok(node_results(&report, end)?.iter().all(|test| test.passed))
}

/// The tests, and where their results go.
fn tests(root: &Path, server: &Path) -> Result<(Command, PathBuf)> {
    let report = tree::results_folder(root)?.join("dashboard.xml");
    let dashboard = root.join(dist::DASHBOARD);
    let mut node = node_tests(&report, test_files(&dashboard.join("test/browser"))?);
    let traces = root.join(dist::CLIENT).join("test/support/traces.mjs");
    node.env("NODE_OPTIONS", format!("--import=\"{}\"", traces.display()));
    node.env("LOCKHOUSE_BIN", server).current_dir(dashboard);
    Ok((node, report))
}
