//! Runs the ring that a patch names in the copy, and separates a verdict of the ring from everything else
//! that may go wrong.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::copy::Copy;
use crate::rings::run::NO_LIMIT;
use crate::rings::{interleavings, results};
use crate::workspace::cargo::{BUILD, PROFILE, WHOLE};
use crate::workspace::shell::{self, End};
use crate::workspace::tree;

/// The longest time of a ring without a bug, building excluded.
pub(crate) const SOUND_LIMIT: Duration = Duration::from_secs(400);

/// The longest time of a ring to catch a bug, building excluded, from its time without a bug. A slow test
/// here must not count as a hang, and a test that nextest ends as one must end before.
pub(crate) fn limit(sound: Duration) -> Duration {
    (10 * sound).max(Duration::from_secs(100))
}

/// The judgement of a ring about the copy.
#[derive(Debug)]
pub(crate) enum Judgement {
    Passed,
    /// The ring failed by its own verdict, given in a few words.
    Failed(String),
    /// The ring gave no verdict: the copy did not build, or the ring died or did not end.
    Broken(String),
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Judgement::Passed => write!(f, "the ring passes"),
            Judgement::Failed(how) => write!(f, "{how}"),
            Judgement::Broken(why) => write!(f, "{why}"),
        }
    }
}

/// A ring as a patch names it: what to build first, what to run then, and how it reports its verdict.
struct Plan {
    builds: Vec<Command>,
    run: Command,
    verdict: Verdict,
}

enum Verdict {
    /// The exit code of a failure; 0 is a pass.
    ExitCode(i32),
    /// A file in which `node --test` leaves the result of each test.
    Report(PathBuf),
}

/// Builds the programs of the ring and runs it; of tests, only these programs. Returns the running time, too.
pub(crate) fn judge(
    copy: &Copy,
    ring: &str,
    only: &Programs,
    limit: Duration,
) -> Result<(Judgement, Duration)> {
    let log = copy.target.join("mutant.log");
    let _ = fs::remove_file(&log);
    let mut plan = plan(copy, ring, only)?;
    for build in &mut plan.builds {
        let end = shell::run_logged(in_copy(build, copy), &log, NO_LIMIT)?;
        if !end.is_success() {
            let why = format!("it does not build ({}: {end}), see {}", shell::line(build), log.display());
            return Ok((Judgement::Broken(why), Duration::ZERO));
        }
    }
    fs::remove_file(&log)?;
    let started = Instant::now();
    let end = shell::run_logged(in_copy(&mut plan.run, copy), &log, limit)?;
    let time = started.elapsed();
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let broken =
        || Judgement::Broken(format!("{} ended with {end}, see {}", shell::line(&plan.run), log.display()));
    let judgement = match (end, &plan.verdict) {
        (End::Exit(0 | 1), Verdict::Report(report)) => judge_report(report)?.unwrap_or_else(broken),
        (End::Exit(0), _) => Judgement::Passed,
        (End::Exit(code), Verdict::ExitCode(verdict)) if code == *verdict => {
            Judgement::Failed(first_complaint(&said))
        }
        _ => broken(),
    };
    Ok((judgement, time))
}

/// The judgement; none if no test ran, or a file died before its tests could.
fn judge_report(report: &Path) -> Result<Option<Judgement>> {
    let tests = results::read_node_junit(&fs::read_to_string(report)?)?;
    let failed = tests.iter().find(|test| !test.passed && !test.is_file());
    Ok(match failed {
        Some(test) => Some(Judgement::Failed(test.name.clone())),
        None if tests.is_empty() || tests.iter().any(results::TestRun::is_file) => None,
        None => Some(Judgement::Passed),
    })
}

/// The options with which cargo builds only the test programs that hold a ring's tests; without any it builds
/// all of them.
#[derive(Debug, Default)]
pub(crate) struct Programs(Vec<String>);

/// Two programs that together depend on all packages. Selected beside the tests, they give dependencies the
/// features that they have in the whole project, so that they are not built again.
const FEATURES: [&str; 2] = ["lab", PROGRAM];

impl Programs {
    /// The programs that have a test of the ring, listed by those of the project itself, which are built.
    /// Linking all others again for each bug would take longer than everything else.
    pub(crate) fn of(copy: &Copy, ring: &str) -> Result<Programs> {
        let (name, filter) = split(ring);
        let Some(packages) = packages(name).filter(|_| shell::exists("cargo-nextest")) else {
            return Ok(Programs::default());
        };
        let mut list = cargo(&["nextest", "list", "--profile", "mutants", "--message-format", "json"]);
        list.args(["--cargo-profile", PROFILE]).args(WHOLE).args(["-E", &filterset(packages, filter)]);
        let output = list.current_dir(&copy.root).stderr(Stdio::null()).output()?;
        let listed: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{} lists no tests", shell::line(&list)))?;
        Ok(Programs::listed(&listed))
    }

    fn listed(list: &serde_json::Value) -> Programs {
        let is_wanted = |suite: &&serde_json::Value| {
            let tests = suite["testcases"].as_object();
            tests.is_some_and(|tests| tests.values().any(|test| test["filter-match"]["status"] == "matches"))
        };
        let suites = list["rust-suites"].as_object();
        let wanted = suites.into_iter().flat_map(serde_json::Map::values).filter(is_wanted);
        let options = wanted.map(|suite| {
            let mut options = vec!["--package".to_owned(), suite["package-name"].as_str()?.to_owned()];
            match suite["kind"].as_str()? {
                "test" => options.extend(["--test".to_owned(), suite["binary-name"].as_str()?.to_owned()]),
                "lib" => options.push("--lib".to_owned()),
                // All other programs with tests are found by building everything.
                _ => return None,
            }
            Some(options)
        });
        Programs(options.collect::<Option<Vec<_>>>().unwrap_or_default().concat())
    }

    /// The options of cargo that select them.
    fn options(&self) -> Vec<&str> {
        if self.0.is_empty() {
            return WHOLE.to_vec();
        }
        let packages = FEATURES.iter().flat_map(|package| ["--package", package]);
        ["--all-features"].into_iter().chain(packages).chain(self.0.iter().map(String::as_str)).collect()
    }
}

/// The first word of a ring, which decides the build for it.
pub(crate) fn kind(ring: &str) -> &str {
    split(ring).0
}

fn split(ring: &str) -> (&str, &str) {
    let (name, filter) = ring.split_once(' ').unwrap_or((ring, ""));
    (name, filter.trim())
}

/// The tests of these packages that have one of the words of the filter in their name, in nextest's language.
fn filterset(packages: &[&str], filter: &str) -> String {
    let one_of = |what: &str, words: Vec<&str>| {
        let all: Vec<String> = words.iter().map(|word| format!("{what}({word})")).collect();
        all.join(" | ")
    };
    let packages = one_of("package", packages.to_vec());
    if filter.is_empty() {
        return packages;
    }
    format!("({packages}) & ({})", one_of("test", filter.split_whitespace().collect()))
}

/// The package whose program the tests of the server start.
const PROGRAM: &str = "lockhouse-program";

/// The packages whose tests are the ring.
fn packages(ring: &str) -> Option<&'static [&'static str]> {
    match ring {
        "core" => Some(&["lockhouse-core"]),
        "store" => Some(&["lockhouse-store", "store-tests"]),
        "library" => Some(&["lockhouse", "library-tests"]),
        "wire" => Some(&["lockhouse-wire"]),
        "server" => Some(&["lockhouse-server", "lockhouse-cli", "client-tests", PROGRAM]),
        "fuzz" => Some(&["fuzz-targets"]),
        _ => None,
    }
}

fn plan(copy: &Copy, ring: &str, only: &Programs) -> Result<Plan> {
    let (name, filter) = split(ring);
    if let Some(packages) = packages(name) {
        return Ok(tests(copy, packages, filter, only));
    }
    let plan = match name {
        "oracle" => {
            proof(copy, "oracle", if filter.is_empty() { "--commands 1000000 --seed 7" } else { filter })
        }
        "model" => proof(copy, "model", if filter.is_empty() { "--depth 5" } else { filter }),
        "crash" => with_server(copy, "crash", if filter.is_empty() { "--kills 8" } else { filter }),
        "matrix" => proof(copy, "matrix", filter),
        "neighbours" => with_server(copy, "neighbours", filter),
        "sim" => proof(copy, "sim", if filter.is_empty() { "--schedules 500" } else { filter }),
        interleavings::NAME => under_a_scheduler(copy, filter),
        "js" if !filter.is_empty() => javascript(copy, filter),
        _ => bail!(
            "`ring: {ring}` is none of core, store, library, wire, server, fuzz (each with a filter if need be), oracle, model, crash, matrix, neighbours, sim, interleavings, js FILE"
        ),
    };
    Ok(plan)
}

/// Builds the programs with the tests as the whole project is built: their dependencies, with other features,
/// would be built for them alone.
fn tests(copy: &Copy, packages: &[&str], filter: &str, only: &Programs) -> Plan {
    let mut builds: Vec<_> =
        packages.contains(&PROGRAM).then(|| build(copy, &["lockhouse"])).into_iter().collect();
    let mut build = cargo(&["test", "--no-run"]);
    if !shell::exists("cargo-nextest") {
        let packages = packages.iter().flat_map(|package| ["--package", package]);
        let what = [vec!["--all-features", "--tests"], packages.collect()].concat();
        build.args(copy.profile().0).args(&what);
        builds.push(build);
        let mut run = cargo(&["test"]);
        run.args(copy.profile().0).args(&what).args(filter.split_whitespace()).env_remove("LOCKHOUSE_BIN");
        // 101: tests failed.
        return Plan { builds, run, verdict: Verdict::ExitCode(101) };
    }
    build.args(copy.profile().0).args(only.options());
    builds.push(build);
    let mut run = cargo(&["nextest", "run", "--profile", "mutants"]);
    run.args(copy.profile().1).args(only.options()).args(["-E", &filterset(packages, filter)]);
    run.env_remove("LOCKHOUSE_BIN");
    // 100: tests failed; 4: none ran; 101 and others: something else went wrong.
    Plan { builds, run, verdict: Verdict::ExitCode(100) }
}

fn under_a_scheduler(copy: &Copy, filter: &str) -> Plan {
    let tests = || interleavings::tests(copy.profile().0);
    let (mut build, mut run) = (tests(), tests());
    build.arg("--no-run");
    run.args(filter.split_whitespace());
    // 101: tests failed.
    Plan { builds: vec![build], run, verdict: Verdict::ExitCode(101) }
}

/// The judged programs, the server included, are part of the laboratory.
fn proof(copy: &Copy, command: &str, args: &str) -> Plan {
    let mut run = Command::new(copy.programs().join("lab"));
    run.arg(command).args(args.split_whitespace());
    Plan { builds: vec![build(copy, &["lab"])], run, verdict: Verdict::ExitCode(crate::FAILED.into()) }
}

fn with_server(copy: &Copy, command: &str, args: &str) -> Plan {
    let server = copy.programs().join("lockhouse");
    let mut plan = proof(copy, command, args);
    plan.builds = vec![build(copy, &["lockhouse", "lab"])];
    plan.run.arg("--server").arg(server);
    plan
}

/// The command builds as the whole project is built, so that dependencies of these programs need not be built
/// for them alone.
fn build(copy: &Copy, programs: &[&str]) -> Command {
    let mut build = cargo(&["build"]);
    build.args(copy.profile().0).args(WHOLE);
    build.args(programs.iter().flat_map(|program| ["--bin", program]));
    build
}

/// A test file of the client, with the client built in the copy, against the server as the project itself
/// builds it: a bug of the client needs no other, and a server takes minutes to build. The words behind the
/// file set variables that the tests read, such as `REALMS=window`, or are options of Node.
fn javascript(copy: &Copy, words: &str) -> Plan {
    let mut client = Command::new("npm");
    client.args(["run", "build", "--prefix", "clients/js"]);
    let mut run = Command::new("node");
    let (options, words): (Vec<&str>, Vec<&str>) =
        words.split_whitespace().partition(|word| word.starts_with("--"));
    let (variables, files): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.contains('='));
    run.arg("--test").args(options);
    run.envs(variables.iter().filter_map(|variable| variable.split_once('=')));
    run.env("LOCKHOUSE_BIN", tree::target(&copy.root).join(PROFILE).join("lockhouse"));
    let report = copy.target.join("mutant.xml");
    let _ = fs::remove_file(&report);
    run.args(["--test-reporter=spec", "--test-reporter-destination=stdout", "--test-reporter=junit"]);
    run.arg(format!("--test-reporter-destination={}", report.display()));
    run.args(files.iter().map(|file| Path::new("clients/js/test").join(file)));
    let mut server = cargo(&["build", "--bin", "lockhouse"]);
    server.args(BUILD).current_dir(&copy.root);
    Plan { builds: vec![server, client], run, verdict: Verdict::Report(report) }
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args);
    command
}

/// Runs a command in the copy, unless it has another place.
fn in_copy<'a>(command: &'a mut Command, copy: &Copy) -> &'a mut Command {
    if command.get_current_dir().is_some() {
        return command;
    }
    // The copy must not take the project for itself: cargo's variables about our own package are withheld.
    let command = command.current_dir(&copy.tree).env("CARGO_TARGET_DIR", &copy.target);
    if copy.is_for_many {
        command.env("CARGO_INCREMENTAL", "1");
    }
    command.env_remove("CARGO_MANIFEST_DIR");
    // The log of a wrong version is no fault of ours.
    command.env_remove(traces::FOLDER)
}

/// The first line that reports a failure, for the report.
fn first_complaint(log: &str) -> String {
    let complains = |line: &&str| {
        ["FAIL", "TIMEOUT", "panicked at", "✖", "differ", "breach", " in bucket \"", "error: "]
            .iter()
            .any(|word| line.contains(word))
    };
    let line =
        log.lines().map(str::trim).find(complains).or(log.lines().next_back()).unwrap_or("its ring failed");
    line.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The dependencies of these packages, each with its features.
    fn dependencies(packages: &[&str]) -> BTreeSet<String> {
        let mut tree =
            cargo(&["tree", "--offline", "--all-features", "--prefix", "none", "--format", "{p} {f}"]);
        let output = tree.args(packages).current_dir(tree::root().unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.replace(" (*)", "")).collect()
    }

    #[test]
    fn dependencies_of_a_ring_have_the_features_of_the_whole_project() {
        let of_all = dependencies(&WHOLE[..3]);
        for package in
            ["lockhouse-core", "lockhouse-store", "lockhouse", "lockhouse-wire", "lockhouse-server"]
        {
            let programs = Programs(vec!["--package".to_owned(), package.to_owned()]);
            let of_ring = dependencies(&programs.options()[1..]);
            let others: Vec<_> = of_ring.difference(&of_all).collect();
            assert!(others.is_empty(), "built again for {package}: {others:?}");
        }
    }
}
