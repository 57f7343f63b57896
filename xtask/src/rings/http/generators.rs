//! Clients in Python and TypeScript that generators make of the OpenAPI document of a running server: their
//! types are checked as strictly as can be, and a program in each language calls the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::running_server::RunningServer;
use crate::rings::Run;
use crate::rings::results::TestRun;
use crate::workspace::tree;

/// The files of the ring, with the versions of the generators.
const FILES: [&str; 6] =
    ["client.py", "client.ts", "package.json", "package-lock.json", "requirements.txt", "tsconfig.json"];

pub(crate) fn ring(run: &Run<'_>, binary: &Path) -> Result<Vec<TestRun>> {
    let place = Place::new(run)?;
    let (server, url) = RunningServer::start(run.root, binary)?;
    let python = place.python(run, &url)?;
    let typescript = place.typescript(run, &url)?;
    drop(server);
    let test = |name: &str, passed| TestRun { suite: "http".to_owned(), name: name.to_owned(), passed };
    Ok(vec![
        test("a_client_that_openapi_python_client_makes_is_strict_and_works", python),
        test("a_client_that_openapi_typescript_makes_is_strict_and_works", typescript),
    ])
}

/// Installs the generators, unless they are there.
pub(crate) fn install(run: &Run<'_>) -> Result<()> {
    Place::new(run).map(|_| ())
}

/// A folder below the build's output, where the generators are installed.
struct Place(PathBuf);

impl Place {
    fn new(run: &Run<'_>) -> Result<Self> {
        let source = run.root.join("tests/generators");
        let place = Self(tree::target(run.root).join("generators"));
        fs::create_dir_all(&place.0)?;
        let mut installed = Vec::new();
        for file in FILES {
            fs::copy(source.join(file), place.0.join(file)).with_context(|| format!("cannot copy {file}"))?;
            if file != "client.py" && file != "client.ts" {
                installed.extend(fs::read(source.join(file))?);
            }
        }
        let mark = place.0.join("installed");
        if fs::read(&mark).is_ok_and(|mark| mark == installed) {
            return Ok(place);
        }
        run.must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(place.0.join("python")))?;
        run.must(place.in_python("pip").args(["install", "--quiet", "-r", "requirements.txt"]))?;
        run.must(place.command("npm").args(["ci", "--no-audit", "--no-fund", "--prefer-offline"]))?;
        fs::write(mark, installed)?;
        Ok(place)
    }

    fn python(&self, run: &Run<'_>, url: &str) -> Result<bool> {
        let mut generator = self.in_python("openapi-python-client");
        generator.args(["generate", "--url", &format!("{url}/openapi.json"), "--meta", "none"]);
        generator.args(["--output-path", "lockhouse_client", "--overwrite"]);
        let mut mypy = self.in_python("mypy");
        mypy.args(["--strict", "lockhouse_client", "client.py"]);
        self.all(run, [generator, mypy, arguments(self.in_python("python"), &["client.py", url])])
    }

    fn typescript(&self, run: &Run<'_>, url: &str) -> Result<bool> {
        let mut generator = self.command("npx");
        generator.args(["openapi-typescript", &format!("{url}/openapi.json"), "--output", "api.d.ts"]);
        let compiler = arguments(self.command("npx"), &["tsc", "--project", "."]);
        self.all(run, [generator, compiler, arguments(self.command("node"), &["out/client.js", url])])
    }

    /// Runs one after the other as long as they succeed; whether all did.
    fn all(&self, run: &Run<'_>, commands: [Command; 3]) -> Result<bool> {
        for mut command in commands {
            if !run.logged(&mut command)?.is_success() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn in_python(&self, program: &str) -> Command {
        self.command(self.0.join("python/bin").join(program))
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0);
        command
    }
}

fn arguments(mut command: Command, arguments: &[&str]) -> Command {
    command.args(arguments);
    command
}
