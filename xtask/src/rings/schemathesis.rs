//! The HTTP API against its own description: schemathesis reads the OpenAPI document of a running server and
//! sends what it allows, and what it forbids.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::rings::Run;
use crate::rings::results::TestRun;
use crate::workspace::tree;

const VERSION: &str = "4.32.0";

/// Calls that are made up for each operation, in each phase that makes up any.
const EXAMPLES: &str = "10";

pub(crate) fn ring(run: &Run<'_>, binary: &Path) -> Result<Vec<TestRun>> {
    let program = install(run)?;
    let log = traces::log_in(&tree::traces_folder(run.root)?);
    let (server, url) = Server::start(binary, log)?;
    let folder = run.root.join("tests/schemathesis");
    let mut command = Command::new(program);
    command
        .arg("--config-file")
        .arg(folder.join("schemathesis.toml"))
        .args(["run", &format!("{url}/openapi.json")]);
    command.args(["--checks", "all", "--max-examples", EXAMPLES, "--seed", "7", "--no-color"]);
    // Schemathesis leaves a folder where it runs.
    command.env("SCHEMATHESIS_HOOKS", folder.join("hooks.py")).current_dir(tree::target(run.root));
    let end = run.logged(&mut command)?;
    drop(server);
    let name = "the_api_is_what_its_document_says".to_owned();
    Ok(vec![TestRun { suite: "http".to_owned(), name, passed: end.is_success() }])
}

/// Into a place of its own below the build's output, unless it is there.
fn install(run: &Run<'_>) -> Result<PathBuf> {
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

/// A server that keeps nothing; killed when dropped.
struct Server(Child);

impl Server {
    fn start(binary: &Path, log: File) -> Result<(Self, String)> {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--fresh"];
        let mut command = Command::new(binary);
        command.args(arguments).env("RUST_LOG", traces::MOST_TALKATIVE);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        let stdout = child.stdout.take();
        let server = Self(child);
        let mut line = String::new();
        BufReader::new(stdout.context("the server has no output")?).read_line(&mut line)?;
        let url =
            line.trim().strip_prefix("listening ").context("the server did not say where it listens")?;
        Ok((server, url.to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
