//! `cargo xtask fuzz`: looks for inputs that break a promise. The targets are functions of `tests/fuzz`, and
//! what was found before is replayed by the tests; only looking for more needs cargo-fuzz.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};

use crate::Verdict;
use crate::workspace::shell::End;
use crate::workspace::{shell, tree};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Which target; all if none is named
    target: Option<String>,
    /// For how long, building not counted; the targets share it evenly
    #[arg(long, value_name = "N", default_value_t = 280)]
    seconds: u64,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Go on where that file ends: a target that it tells as searched for as long, without a crash, is not
    /// searched again
    #[arg(long, requires = "json")]
    resume: bool,
}

/// The result of one target.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    target: String,
    /// The commit that was searched.
    commit: String,
    seconds: u64,
    executions: u64,
    /// Inputs kept in `fuzz/corpus` with which it began.
    corpus: usize,
    crashes: u64,
}

/// The version that `cargo xtask fuzz` is known to work with.
const CARGO_FUZZ: &str = "0.13.1";

/// Fewer executions in a second are no search.
const LEAST_PER_SECOND: u64 = 2;

/// An input that takes longer has hung, in seconds.
const HANG_S: u64 = 20;

/// More memory is out of proportion to any input, in MiB.
const MEMORY_MIB: u64 = 1024;

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let all = targets(&root)?;
    let mut targets = chosen(all.clone(), args.target.as_deref())?;
    let each = args.seconds / targets.len() as u64;
    ensure!(each > 0, "--seconds {} leaves less than a second for each of {}", args.seconds, targets.len());
    let mut found = match &args.json {
        Some(json) if args.resume && json.exists() => searched_before(json, &all)?,
        _ => Vec::new(),
    };
    targets.retain(|target| found.iter().all(|it| it.target != *target || !it.is_enough(each)));
    if !found.is_empty() {
        println!("{} were searched before, {} are left", found.len(), targets.len());
    }
    if !targets.is_empty() {
        install(&root)?;
        build(&root, &targets)?;
    }
    for target in targets {
        found.retain(|it| it.target != target);
        found.push(search(&root, target, each)?);
        // The file is written after each target: the whole takes long, and earlier results must not be lost
        // with the rest.
        if let Some(json) = &args.json {
            found.sort_by(|a, b| a.target.cmp(&b.target));
            fs::write(json, serde_json::to_vec_pretty(&found)?)
                .with_context(|| format!("cannot write {}", json.display()))?;
        }
    }
    let crashes: u64 = found.iter().map(|it| it.crashes).sum();
    let executions: u64 = found.iter().map(|it| it.executions).sum();
    println!("{} targets, {executions} executions, {crashes} crashes", found.len());
    for Found { target, executions, seconds, .. } in found.iter().filter(|it| it.crashes == 0) {
        let least = seconds * LEAST_PER_SECOND;
        ensure!(*executions >= least, "{target}: {executions} executions prove nothing; at least {least} do");
    }
    Ok(crashes == 0)
}

impl Found {
    /// Whether that was long enough and found nothing.
    fn is_enough(&self, seconds: u64) -> bool {
        self.seconds >= seconds && self.crashes == 0
    }
}

/// The results of an earlier run for targets that are still there.
fn searched_before(json: &Path, targets: &[String]) -> Result<Vec<Found>> {
    let text = fs::read(json).with_context(|| format!("cannot read {}", json.display()))?;
    let mut found: Vec<Found> = serde_json::from_slice(&text).with_context(|| json.display().to_string())?;
    found.retain(|it| targets.contains(&it.target));
    Ok(found)
}

/// The names of all targets: their programs'.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let stem = |file: PathBuf| Some(file.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = entries.filter_map(|entry| stem(entry.ok()?.path())).collect();
    names.sort();
    Ok(names)
}

fn chosen(all: Vec<String>, wanted: Option<&str>) -> Result<Vec<String>> {
    let Some(wanted) = wanted else { return Ok(all) };
    if !all.iter().any(|name| name == wanted) {
        bail!("no such target; there are {}", all.join(", "));
    }
    Ok(vec![wanted.to_owned()])
}

fn install(root: &Path) -> Result<()> {
    if shell::exists("cargo-fuzz") {
        return Ok(());
    }
    let mut install = Command::new("cargo");
    install.args(["install", "--locked", "cargo-fuzz", "--version", CARGO_FUZZ]).current_dir(root);
    let end = shell::run_shown(&mut install)?;
    ensure!(end.is_success(), "cargo-fuzz cannot be installed: {end}");
    Ok(())
}

fn build(root: &Path, targets: &[String]) -> Result<()> {
    let mut build = cargo_fuzz(root, "build");
    // All targets share one build; a single one is built alone.
    if let [alone] = targets {
        build.arg(alone);
    }
    let end = shell::run_shown(&mut build)?;
    ensure!(end.is_success(), "the targets do not build: {end}");
    Ok(())
}

/// The compiler's flags for fuzzing are those of a nightly one. The project has no unsafe code for a
/// sanitizer to judge, and without one the search is faster.
fn cargo_fuzz(root: &Path, command: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(["fuzz", command, "--sanitizer", "none"]).env("RUSTC_BOOTSTRAP", "1").current_dir(root);
    cargo
}

fn search(root: &Path, target: String, seconds: u64) -> Result<Found> {
    let seeds = root.join("fuzz/corpus").join(&target);
    let corpus = fs::read_dir(&seeds).with_context(|| format!("cannot read {}", seeds.display()))?.count();
    // New inputs go here, and stay for the next search; good ones are moved to the corpus by hand.
    let grown = root.join("fuzz/target/grown").join(&target);
    fs::create_dir_all(&grown)?;
    let log = tree::results_folder(root)?.join(format!("fuzz.{target}.log"));
    let _ = fs::remove_file(&log);
    let mut run = cargo_fuzz(root, "run");
    run.arg(&target).arg(&grown).arg(&seeds).arg("--");
    run.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={HANG_S}"));
    run.arg(format!("-rss_limit_mb={MEMORY_MIB}")).arg("-print_final_stats=1");
    println!("$ {}", shell::line(&run));
    let end = shell::run_logged(&mut run, &log, Duration::from_secs(2 * seconds + 600))?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let Some(executions) = executions(&said) else {
        bail!("{target} told nothing of its executions ({end}), see {}", log.display());
    };
    let crashes = u64::from(!end.is_success());
    report(&target, &said, executions, end, &log);
    Ok(Found { target, commit: tree::head(root)?, seconds, executions, corpus, crashes })
}

fn report(target: &str, said: &str, executions: u64, end: End, log: &Path) {
    println!("{target}: {executions} executions, {}", if end.is_success() { "no crash" } else { "CRASHED" });
    if end.is_success() {
        return;
    }
    let shown = |line: &&str| {
        ["panicked at", "ERROR: libFuzzer", "Test unit written", "ALARM"].iter().any(|it| line.contains(it))
    };
    for line in said.lines().filter(shown) {
        println!("   {line}");
    }
    println!(
        "   all of it: {}; the input goes to fuzz/corpus/{target} once its fault is mended",
        log.display()
    );
}

/// libFuzzer's count, from its last lines.
fn executions(said: &str) -> Option<u64> {
    let count = |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    said.lines().find_map(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_from_what_the_fuzzer_says_at_its_end() {
        let said =
            "#2\tINITED cov: 5\nstat::number_of_executed_units: 8421\nstat::average_exec_per_sec:     12\n";
        assert_eq!(executions(said), Some(8421));
        assert_eq!(executions("error: could not compile"), None);
    }

    #[test]
    fn a_run_goes_on_with_what_was_not_searched_for_as_long_or_crashed() {
        let found = |target: &str, seconds, crashes| Found {
            target: target.into(),
            commit: "53ae8c3".into(),
            seconds,
            executions: 1000,
            corpus: 1,
            crashes,
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = [found("a", 60, 0), found("b", 59, 0), found("c", 60, 1), found("gone", 60, 0)];
        fs::write(file.path(), serde_json::to_vec(&before).unwrap()).unwrap();
        let targets = ["a", "b", "c", "d"].map(str::to_owned);
        let before = searched_before(file.path(), &targets).unwrap();
        let names = |found: &[&Found]| found.iter().map(|it| it.target.clone()).collect::<Vec<_>>();
        assert_eq!(names(&before.iter().collect::<Vec<_>>()), ["a", "b", "c"], "nothing is forgotten");
        let enough: Vec<_> = before.iter().filter(|it| it.is_enough(60)).collect();
        assert_eq!(names(&enough), ["a"]);
    }

    #[test]
    fn an_unknown_target_is_reported_with_the_known_ones() {
        let all = || vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(chosen(all(), None).unwrap(), ["a", "b"]);
        assert_eq!(chosen(all(), Some("b")).unwrap(), ["b"]);
        assert_eq!(chosen(all(), Some("c")).unwrap_err().to_string(), "no such target; there are a, b");
    }
}
