//! cargo-mutants itself: what it would change, and what the tests said of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::Shard;
use crate::mutants::copy::Copy;
use crate::workspace::shell::{self, End};

/// The version that `cargo xtask mutate` is known to work with.
const CARGO_MUTANTS: &str = "27.1.0";

pub(super) fn install(root: &Path) -> Result<()> {
    if shell::exists("cargo-mutants") {
        return Ok(());
    }
    let mut install = Command::new("cargo");
    install.args(["install", "--locked", "cargo-mutants", "--version", CARGO_MUTANTS]).current_dir(root);
    let end = shell::run_shown(&mut install)?;
    ensure!(end.is_success(), "cargo-mutants cannot be installed: {end}");
    Ok(())
}

/// The tool's name and version, as it reports them.
pub(super) fn version() -> Result<String> {
    let output = Command::new("cargo").args(["mutants", "--version"]).output()?;
    ensure!(output.status.success(), "cargo-mutants does not tell its version");
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The number of changes of each of these files, of which some may have none.
pub(super) fn list(copy: &Copy, package: &str, files: &[String]) -> Result<BTreeMap<String, usize>> {
    let mut list = cargo_mutants(copy, package);
    list.arg("--list").args(files.iter().flat_map(|file| ["--file", file]));
    let output = list.stdin(Stdio::null()).output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        shell::line(&list),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let mut counts = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let (file, _) = line.split_once(':').with_context(|| format!("no change of a file: {line}"))?;
        *counts.entry(file.to_owned()).or_insert(0) += 1;
    }
    Ok(counts)
}

/// The changes of a shard, by what came of them.
pub(super) struct Found {
    pub(super) caught: Vec<String>,
    pub(super) missed: Vec<String>,
    pub(super) timeout: Vec<String>,
    pub(super) unviable: Vec<String>,
}

/// Tries each change of a shard in the copy, which must have no other bug; none if this takes too long.
pub(super) fn run(copy: &Copy, shard: &Shard<'_>, limit: Duration) -> Result<Option<Found>> {
    let folder = copy.target.join("generated");
    let log = copy.target.join("generated.log");
    _ = fs::remove_file(&log);
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let mut run = cargo_mutants(copy, shard.subject.package);
    run.args(["--in-place", "--no-times", "--colors=never", "--profile=mutants", "--all-features"]);
    run.arg("--output").arg(&folder).args(["--file", &shard.file]);
    // The tool counts from 0.
    let (part, parts) = shard.part.split_once('/').context("a part is one of some")?;
    run.arg(format!("--shard={}/{parts}", part.parse::<usize>()?.saturating_sub(1)));
    run.args(shard.subject.test_packages.iter().map(|package| format!("--test-package={package}")));
    if shell::exists("cargo-nextest") {
        run.arg("--test-tool=nextest");
    }
    // The build, too, takes only these programs.
    run.args(shard.subject.programs.iter().map(|program| format!("--cargo-arg={program}")));
    // Arguments behind a second `--` are those of the programs.
    run.args(["--", "--"]).args(shard.subject.tests);
    // The first failure is the verdict, and a hang is one.
    run.env("NEXTEST_PROFILE", "mutants");
    // The build of a change takes longer than its tests.
    run.env("CARGO_PROFILE_MUTANTS_OPT_LEVEL", "0");
    println!("$ {}", shell::line(&run));
    let end = shell::run_logged(&mut run, &log, limit)?;
    if matches!(end, End::TimedOut(_)) {
        return Ok(None);
    }
    // 2: some were missed; 3: some did not end.
    if !matches!(end, End::Exit(0 | 2 | 3)) {
        bail!("{} {}: {end}, see {}", shard.file, shard.part, log.display());
    }
    let lines = |name: &str| -> Result<Vec<String>> {
        let file = folder.join("mutants.out").join(name);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(text.lines().map(ToOwned::to_owned).collect())
    };
    Ok(Some(Found {
        caught: lines("caught.txt")?,
        missed: lines("missed.txt")?,
        timeout: lines("timeout.txt")?,
        unviable: lines("unviable.txt")?,
    }))
}

fn cargo_mutants(copy: &Copy, package: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(["mutants", "--package", package]);
    cargo.current_dir(&copy.tree).env("CARGO_TARGET_DIR", &copy.target);
    // The copy must not take the project for itself: cargo's variables about our own package are withheld.
    cargo.env_remove("CARGO_MANIFEST_DIR");
    cargo
}
