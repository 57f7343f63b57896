//! The HTTP API against its own description: schemathesis reads the OpenAPI document of a running server and
//! sends what it allows, and what it forbids.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::running_server::RunningServer;
use crate::rings::Run;
use crate::rings::results::TestRun;
use crate::workspace::tree;

const VERSION: &str = "4.32.0";

/// Calls that are made up for each operation, in each phase that makes up any.
const EXAMPLES: &str = "10";

pub(crate) fn ring(run: &Run<'_>, binary: &Path) -> Result<Vec<TestRun>> {
    let program = install(run)?;
    let (server, url) = RunningServer::start(run.root, binary)?;
    let folder = run.root.join("tests/schemathesis");
    let mut command = Command::new(program);
    command
        .arg("--config-file")
        .arg(folder.join("schemathesis.toml"))
        .args(["run", &format!("{url}/openapi.json")]);
    command.args(["--checks", "all", "--max-examples", EXAMPLES, "--seed", "7", "--no-color"]);
    // A stream has no end, and no answer is waited for that has none.
    command.args(["--exclude-operation-id", "events"]);
    // Schemathesis leaves a folder where it runs.
    command.env("SCHEMATHESIS_HOOKS", folder.join("hooks.py")).current_dir(tree::target(run.root));
    let end = run.logged(&mut command)?;
    drop(server);
    let name = "the_api_is_what_its_document_says".to_owned();
    Ok(vec![TestRun { suite: "http".to_owned(), name, passed: end.is_success() }])
}

/// Into a place of its own below the build's output, unless it is there.
pub(crate) fn install(run: &Run<'_>) -> Result<PathBuf> {
    let place = tree::target(run.root).join("schemathesis");
    let program = place.join("bin/schemathesis");
    let installed = place.join("installed");
    if program.is_file() && fs::read_to_string(&installed).is_ok_and(|version| version == VERSION) {
        return Ok(program);
    }
    run.must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    let package = format!("schemathesis=={VERSION}");
    run.must(Command::new(place.join("bin/pip")).args(["install", "--quiet", &package]))?;
    fs::write(installed, VERSION)?;
    Ok(program)
}
