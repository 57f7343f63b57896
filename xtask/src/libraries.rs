//! `cargo xtask libraries`: libraries that are built on Web Locks, in tabs of Chromium, once on the client
//! and once on the engine's own locks. A test that fails on both is at fault itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};

use crate::Verdict;
use crate::rings::results::TestRun;
use crate::rings::{self, Run, dist};
use crate::workspace::origin::RunOrigin;
use crate::workspace::{cargo, setup, shell, tree};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The tests, which have packages of their own: nothing else needs the libraries.
const TESTS: &str = "clients/js/test/libraries";

/// A run takes a minute; longer than this only a hang takes.
const LIMIT: Duration = Duration::from_secs(900);

/// The part of `package.json` that names the libraries, each with its exact version.
#[derive(Debug, Deserialize)]
struct Package {
    dependencies: BTreeMap<String, String>,
}

/// The result, as it is filed.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    origin: RunOrigin,
    chromium: String,
    libraries: Vec<Library>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Library {
    name: String,
    version: String,
    ours: Count,
    native: Count,
}

#[derive(Debug, PartialEq, Serialize)]
struct Count {
    passed: usize,
    failed: usize,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    setup::browser(&root)?;
    setup::npm_packages(&Run::preparing(&root, "setup")?, TESTS)?;
    let server = cargo::program(&root, "lockhouse")?;
    let package: Package = serde_json::from_slice(&fs::read(root.join(TESTS).join("package.json"))?)?;
    let ours = tests(&root, &server, "lockhouse")?;
    let native = tests(&root, &server, "native")?;
    let libraries: Vec<Library> = package
        .dependencies
        .into_iter()
        .map(|(name, version)| count(name, version, &ours, &native))
        .collect();
    for Library { name, version, ours, native } in &libraries {
        println!("{name} {version}: {} on ours, {} natively", ours.shown(), native.shown());
        ensure!(ours.ran() && native.ran(), "no test of {name} ran");
    }
    if let Some(json) = &args.json {
        let report = Report { origin: RunOrigin::of(&root)?, chromium: chromium()?, libraries };
        fs::write(json, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", json.display()))?;
    }
    Ok(ours.iter().chain(&native).all(|test| test.passed))
}

/// Runs the tests on the locks that `surface` names.
fn tests(root: &Path, server: &Path, surface: &str) -> Result<Vec<TestRun>> {
    let results = tree::results_folder(root)?;
    let log = results.join(format!("libraries.{surface}.log"));
    let _ = fs::remove_file(&log);
    let report = results.join(format!("libraries.{surface}.xml"));
    let mut node = rings::node_tests(&report, rings::test_files(&root.join(TESTS))?);
    node.env("SURFACE", surface).env("LOCKHOUSE_BIN", server).current_dir(root.join(dist::CLIENT));
    println!("$ {}", shell::line(&node));
    let end = shell::run_logged(&mut node, &log, LIMIT)?;
    let tests = rings::node_results(&report, end)?;
    for test in tests.iter().filter(|test| !test.passed) {
        println!("   failed: {}; see {}", test.name, log.display());
    }
    Ok(tests)
}

/// The tests of a library are in a suite of its name.
fn count(name: String, version: String, ours: &[TestRun], native: &[TestRun]) -> Library {
    let suite = format!("{name} > ");
    let of_suite = |tests: &[TestRun]| {
        let (passed, failed): (Vec<_>, Vec<_>) =
            tests.iter().filter(|test| test.name.starts_with(&suite)).partition(|test| test.passed);
        Count { passed: passed.len(), failed: failed.len() }
    };
    let (ours, native) = (of_suite(ours), of_suite(native));
    Library { name, version, ours, native }
}

impl Count {
    fn ran(&self) -> bool {
        self.passed + self.failed > 0
    }

    fn shown(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

fn chromium() -> Result<String> {
    let output = Command::new("chromium").arg("--version").output().context("cannot run chromium")?;
    ensure!(output.status.success(), "chromium --version: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_the_suite_of_their_library() {
        let test = |name: &str, passed| TestRun { suite: "js".into(), name: name.into(), passed };
        let ours = [test("a > x", true), test("a > y", false), test("ab > x", true)];
        let native = [test("a > x", true), test("/a.test.mjs", false)];
        let expected = Library {
            name: "a".into(),
            version: "1.0.0".into(),
            ours: Count { passed: 1, failed: 1 },
            native: Count { passed: 1, failed: 0 },
        };
        assert_eq!(count("a".into(), "1.0.0".into(), &ours, &native), expected);
    }
}
