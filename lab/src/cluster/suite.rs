//! `cargo xtask js-fleet`: the suite of the JavaScript client against nodes that have no slot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use xtask::Verdict;
use xtask::workspace::{cargo, setup, tree};

use super::postgres::Server;

/// Run the suite of the JavaScript client against a node of a fleet that has no slot
///
/// Each server that a test starts is two nodes over a PostgreSQL: the test meets the one that hands all on to
/// the other. Servers with a store, settings or certificates of their own, or with a lease that is too short
/// for a fleet, are started alone, as in `cargo xtask test --only js`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Only the files whose paths have this in them
    #[arg(default_value = "")]
    only: String,
}

/// The variable that has the suite start fleets: the folder of the socket of a PostgreSQL.
const FLEETS_IN: &str = "LOCKHOUSE_TEST_FLEETS_IN";

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    setup::postgres()?;
    let program = cargo::program(&root, "lockhouse")?;
    let client = root.join("clients/js");
    let mut files = Vec::new();
    for folder in ["test", "test/lifecycle"] {
        files.extend(test_files(&client.join(folder))?);
    }
    files.retain(|file| file.to_string_lossy().contains(&args.only));
    ensure!(!files.is_empty(), "no file of tests has {:?} in its path", args.only);
    let database = Server::start_apart(&["max_connections=300"]);
    let mut node = Command::new("node");
    node.args(["--test", "--test-concurrency=2"]).args(files).current_dir(client);
    node.env("LOCKHOUSE_BIN", program).env(FLEETS_IN, database.folder());
    Ok(node.status().context("cannot start node")?.success())
}

/// The files of tests in a folder, by name.
fn test_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        files.extend(path.to_string_lossy().ends_with(".test.mjs").then_some(path));
    }
    files.sort();
    Ok(files)
}
