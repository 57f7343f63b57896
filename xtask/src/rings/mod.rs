//! The rings of tests, as one table, and how each is run.

mod alerts;
pub(crate) mod conformance;
pub(crate) mod dashboard;
pub(crate) mod dist;
pub(crate) mod http;
pub(crate) mod interleavings;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod test;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::results::{TestRun, suite_of_package};
pub(crate) use self::run::Run;
use self::schedule::Demand;
use crate::verify;
use crate::workspace::cargo::{BUILD, PROFILE, WHOLE};
use crate::workspace::{shell, tree};

/// One ring: a program that judges one side of the project and says of each of its tests whether it passed.
pub(crate) struct Ring {
    pub(crate) name: &'static str,
    /// The property that the ring shows, for the progress line.
    pub(crate) shows: &'static str,
    demand: Demand,
    /// How long it takes on two cores, with everything built. Only a hang takes [`run::HANG`] times as long.
    /// A ring without it builds what it judges and ends its own hangs.
    usual_s: Option<u64>,
    work: fn(&Run<'_>) -> Result<Vec<TestRun>>,
}

/// Every ring that `cargo xtask test` runs. Of those that may begin, the first in this order does: the long
/// ones stand before the short ones, and those that mostly use one core before those that use two.
pub(crate) const RINGS: &[Ring] = &[
    Ring {
        name: "dist",
        shows: "the committed builds of client and dashboard are fresh",
        demand: Demand::Cores,
        usual_s: Some(30),
        work: dist::ring,
    },
    Ring {
        name: "lint",
        shows: "format, lints and documentation",
        demand: Demand::Cores,
        usual_s: Some(180),
        work: lint,
    },
    Ring {
        name: "mutants",
        shows: "two planted bugs, chosen by the commit, are caught",
        demand: Demand::Cores,
        usual_s: None,
        work: mutants,
    },
    Ring {
        name: interleavings::NAME,
        shows: "threads that meet in bucket, house and pipeline",
        demand: Demand::Cores,
        usual_s: Some(60),
        work: interleavings::ring,
    },
    Ring {
        name: "sim",
        shows: "schedules of faults over house, store and sessions, and over a fleet",
        demand: Demand::Cores,
        usual_s: Some(80),
        work: sim,
    },
    Ring {
        name: "rust",
        shows: "unit, scenario, library and server tests",
        demand: Demand::Much,
        usual_s: Some(180),
        work: rust,
    },
    Ring {
        name: "doc",
        shows: "examples in the documentation",
        demand: Demand::Cores,
        usual_s: Some(60),
        work: doctests,
    },
    Ring {
        name: "js",
        shows: "client in Chromium and Node, against the built server; sample applications in Chromium",
        demand: Demand::Much,
        usual_s: Some(250),
        work: js,
    },
    Ring {
        name: dashboard::NAME,
        shows: "the dashboard in Chromium, on a server with 10^5 locks",
        demand: Demand::Much,
        usual_s: Some(240),
        work: dashboard::ring,
    },
    Ring {
        name: "http",
        shows: "the HTTP API against its OpenAPI document, and what generators make of it",
        demand: Demand::Little,
        usual_s: Some(120),
        work: http::ring,
    },
    Ring {
        name: "alerts",
        shows: "the alert rules, by Prometheus's own tool",
        demand: Demand::Little,
        usual_s: Some(10),
        work: alerts::ring,
    },
    Ring {
        name: "oracle",
        shows: "core against a transcription of the specification",
        demand: Demand::Cores,
        usual_s: Some(60),
        work: oracle,
    },
    Ring {
        name: "model",
        shows: "every state of a small world",
        demand: Demand::Cores,
        usual_s: Some(30),
        work: model,
    },
    Ring {
        name: "crash",
        shows: "20 kills and a few disk failures of a server that real clients use",
        demand: Demand::Little,
        usual_s: Some(60),
        work: crash,
    },
    Ring {
        name: "chaos",
        shows: "three kinds of faults, chosen by the commit, in a fleet that real clients use",
        demand: Demand::Little,
        usual_s: Some(75),
        work: chaos,
    },
    Ring {
        name: "matrix",
        shows: "every route and frame with every kind of credential",
        demand: Demand::Cores,
        usual_s: Some(60),
        work: matrix,
    },
    Ring {
        name: "soak",
        shows: "1000 connections that come and go for 20 s",
        demand: Demand::Little,
        usual_s: Some(75),
        work: soak,
    },
    Ring {
        name: "neighbours",
        shows: "what a tenant is answered beside one that is at its limits",
        demand: Demand::Machine,
        usual_s: Some(60),
        work: neighbours,
    },
    Ring {
        name: "guard",
        shows: "the hot paths take no more instructions than was accepted",
        demand: Demand::Machine,
        usual_s: Some(60),
        work: guard,
    },
    Ring {
        name: SECRETS,
        shows: "no log of all that ran before has a secret",
        demand: Demand::Machine,
        usual_s: Some(10),
        work: secrets,
    },
];

/// The rings that run no program of the product, or build it themselves.
pub(crate) const WITHOUT_BUILD: [&str; 4] = ["dist", "lint", "alerts", SECRETS];

/// The ring that looks at what the others left.
pub(crate) const SECRETS: &str = "secrets";

fn lint(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let mut gates = verify::lints();
    gates.push(("client", verify::npm_check(dist::CLIENT)));
    gates.push(("dashboard", verify::npm_check(dist::DASHBOARD)));
    let judged = gates.into_iter().map(|(name, mut gate)| {
        let passed = run.logged(&mut gate)?.is_success();
        Ok(TestRun { suite: "lint".to_owned(), name: name.to_owned(), passed })
    });
    judged.collect()
}

/// The server's binary, as the build makes it.
pub(crate) fn server(root: &Path) -> PathBuf {
    tree::target(root).join(PROFILE).join("lockhouse")
}

pub(crate) fn built_server(run: &Run<'_>) -> Result<PathBuf> {
    let binary = server(run.root);
    anyhow::ensure!(binary.is_file(), "the build of the tests made no {}", binary.display());
    Ok(binary)
}

fn rust(run: &Run<'_>) -> Result<Vec<TestRun>> {
    if !shell::exists("cargo-nextest") {
        return rust_without_nextest(run);
    }
    let report = tree::target(run.root).join("nextest/ci/junit.xml");
    let _ = fs::remove_file(&report);
    let mut nextest = Command::new("cargo");
    nextest.args(["nextest", "run", "--profile", "ci", "--cargo-profile", PROFILE]).args(WHOLE);
    nextest.args(["-E", &format!("not package({})", interleavings::NAME)]);
    // The tests take the program that is built beside them.
    nextest.env_remove("LOCKHOUSE_BIN");
    let end = run.logged(&mut nextest)?;
    let xml = fs::read_to_string(&report).with_context(|| format!("nextest left no results ({end})"))?;
    checked(results::read_junit(&xml, suite_of_package, "rust")?, end)
}

fn rust_without_nextest(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let packages = package_of_each_binary(run.root)?;
    let suite_of = |binary: &str| packages.get(binary).and_then(|package| suite_of_package(package));
    let mut test = Command::new("cargo");
    test.args(["test", "--no-fail-fast", "--all-targets"]).args(BUILD).env_remove("LOCKHOUSE_BIN");
    test.args(["--exclude", interleavings::NAME]);
    let end = run.logged(&mut test)?;
    checked(results::read_harness(&fs::read_to_string(&run.log)?, suite_of, "rust"), end)
}

fn doctests(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let mut doc = Command::new("cargo");
    doc.args(["test", "--doc", "--no-fail-fast"]).args(BUILD);
    // They have the library's source, and with it its examples.
    let end = run.logged(doc.args(["--exclude", interleavings::NAME]))?;
    checked(results::read_harness(&fs::read_to_string(&run.log)?, |_| None, "doc"), end)
}

fn js(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let binary = built_server(run)?;
    let client = run.root.join(dist::CLIENT);
    let report = tree::results_folder(run.root)?.join("js.xml");
    let mut files = test_files(&client.join("test"))?;
    files.extend(test_files(&run.root.join("examples"))?);
    files.extend(test_files(&run.root.join(dist::DASHBOARD).join("test/logic"))?);
    let mut node = node_tests(&report, files);
    // The programs that run the tests, and all that they start.
    node.env("NODE_OPTIONS", format!("--import=\"{}\"", client.join("test/support/traces.mjs").display()));
    for (variable, program) in [("CUSTOMERS_BIN", "customers"), ("SEATS_BIN", "seats")] {
        node.env(variable, binary.with_file_name(program));
    }
    node.env("LOCKHOUSE_BIN", binary);
    let end = run.logged(node.current_dir(client))?;
    node_results(&report, end)
}

/// Node's test runner on these files. It prints as it goes, and leaves its results in `report`.
pub(crate) fn node_tests(report: &Path, files: Vec<PathBuf>) -> Command {
    let _ = fs::remove_file(report);
    let mut node = Command::new("node");
    // Most files wait for leases and browsers most of the time. A test that hangs is ended and has failed.
    node.args(["--test", "--test-concurrency=2", "--test-timeout=300000"]).args([
        "--test-reporter=spec",
        "--test-reporter-destination=stdout",
        "--test-reporter=junit",
    ]);
    node.arg(format!("--test-reporter-destination={}", report.display())).args(files);
    node
}

/// What Node's test runner left in `report`.
pub(crate) fn node_results(report: &Path, end: shell::End) -> Result<Vec<TestRun>> {
    let xml = fs::read_to_string(report).with_context(|| format!("node left no results ({end})"))?;
    checked(results::read_node_junit(&xml)?, end)
}

/// The files of tests, by name: Node 20 would take every file below a folder `test` for one, helpers
/// included. A folder with packages of its own is left to the command that installs them.
pub(crate) fn test_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.join("package.json").is_file() {
            continue;
        }
        if path.is_dir() {
            files.extend(test_files(&path)?);
        } else if [".test.js", ".test.mjs", ".test.cjs"]
            .iter()
            .any(|end| path.to_string_lossy().ends_with(end))
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn oracle(run: &Run<'_>) -> Result<Vec<TestRun>> {
    proof(run, "oracle", "core_and_specification_agree", &["--commands", "1000000", "--seed", "7"])
}

fn model(run: &Run<'_>) -> Result<Vec<TestRun>> {
    proof(run, "model", "no_state_breaches_an_invariant", &[])
}

fn crash(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let binary = built_server(run)?;
    let binary = binary.to_str().context("the path of the server is no text")?;
    proof(run, "crash", "no_kill_loses_or_doubles_anything", &["--kills", "20", "--server", binary])
}

fn chaos(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let binary = built_server(run)?;
    let binary = binary.to_str().context("the path of the server is no text")?;
    let commit = tree::head(run.root)?;
    let args = ["--seconds", "30", "--some", &commit, "--server", binary];
    proof(run, "chaos", "no_fault_of_a_fleet_loses_or_doubles_anything", &args)
}

fn soak(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let binary = built_server(run)?;
    let binary = binary.to_str().context("the path of the server is no text")?;
    let args = ["--connections", "1000", "--seconds", "20", "--server", binary];
    proof(run, "soak", "the_server_gives_back_all_that_it_took", &args)
}

fn neighbours(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let binary = built_server(run)?;
    let binary = binary.to_str().context("the path of the server is no text")?;
    proof(run, "neighbours", "a_tenant_gets_the_same_answers_whatever_another_does", &["--server", binary])
}

fn matrix(run: &Run<'_>) -> Result<Vec<TestRun>> {
    proof(run, "matrix", "no_caller_gets_in_without_permission", &[])
}

/// The first of the schedules that `cargo xtask long sim` plays. Of the house, a third of them finds every
/// planted bug.
fn sim(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let args = ["--schedules", "1500", "--seed", "1"];
    let mut tests = proof(run, "sim", "clients_get_true_answers_whatever_fails", &args)?;
    let args = ["--fleet", "--schedules", "1000", "--seed", "1"];
    tests.extend(proof(run, "sim", "no_two_clients_of_a_fleet_believe_in_one_lock_whatever_fails", &args)?);
    Ok(tests)
}

fn guard(run: &Run<'_>) -> Result<Vec<TestRun>> {
    proof(run, "guard", "no_hot_path_takes_more_instructions", &[])
}

fn mutants(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let seed = tree::head(run.root)?;
    proof(run, "mutants", "planted_bugs_are_caught", &["--sample", "2", "--seed", &seed])
}

fn secrets(run: &Run<'_>) -> Result<Vec<TestRun>> {
    proof(run, SECRETS, "no_log_holds_a_secret", &[])
}

/// Runs another command of ours, which is one test: it passes if the command exits 0. The program is the one
/// that the build made, and is started without cargo, whose lock would make it wait for other rings.
fn proof(run: &Run<'_>, command: &str, test: &str, args: &[&str]) -> Result<Vec<TestRun>> {
    let program = if ["mutants", SECRETS].contains(&command) { "xtask" } else { "lab" };
    let program = tree::target(run.root).join(PROFILE).join(program);
    let json = tree::results_folder(run.root)?.join(format!("{command}.report.json"));
    let end = run.logged(Command::new(program).arg(command).args(args).arg("--json").arg(json))?;
    Ok(vec![TestRun { suite: command.to_owned(), name: test.to_owned(), passed: end.is_success() }])
}

/// A runner that reports failure must have named the failed test; else its report is not believed.
fn checked(tests: Vec<TestRun>, end: shell::End) -> Result<Vec<TestRun>> {
    if !end.is_success() && tests.iter().all(|test| test.passed) {
        bail!("{end}, though none of the {} tests in its report failed", tests.len());
    }
    Ok(tests)
}

/// Which package each test binary comes from, by crate name; the harness itself does not say.
fn package_of_each_binary(root: &Path) -> Result<HashMap<String, String>> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let output = Command::new("cargo").args(args).current_dir(root).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let mut packages = HashMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            if let (Some(name), Some(package)) = (target["name"].as_str(), package["name"].as_str()) {
                packages.insert(name.replace('-', "_"), package.to_owned());
            }
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::shell::End;

    fn run_of(passed: bool) -> TestRun {
        TestRun { suite: "core".into(), name: "t".into(), passed }
    }

    #[test]
    fn a_runner_that_fails_without_a_failed_test_is_not_believed() {
        assert!(checked(vec![run_of(true)], End::Exit(1)).is_err());
        assert!(checked(vec![run_of(false)], End::Exit(1)).is_ok());
        assert!(checked(vec![run_of(true)], End::Exit(0)).is_ok());
    }

    #[test]
    fn ring_names_are_distinct() {
        let names: std::collections::BTreeSet<_> = RINGS.iter().map(|ring| ring.name).collect();
        assert_eq!(names.len(), RINGS.len());
    }
}
