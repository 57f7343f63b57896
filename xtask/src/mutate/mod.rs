//! `cargo xtask mutate`: cargo-mutants changes the core and the outbox in every small way that it knows. The
//! tests must notice each change, or `docs/evidence/survivors.json` argues why it is none.

mod survivors;
mod tool;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Verdict;
use crate::mutants::copy::Copy;
use crate::workspace::tree;
use survivors::Argument;

/// The sources that are changed, and the tests that must notice.
struct Subject {
    package: &'static str,
    /// The package's sources.
    folder: &'static str,
    /// Only the module of this name, wherever it lies in the folder.
    only: Option<&'static str>,
    /// The packages whose tests judge the changes.
    test_packages: &'static [&'static str],
    /// The programs of their tests that are built.
    programs: &'static [&'static str],
    /// Which of their tests run, as the programs take it. Tests of cost are left out: their result depends on
    /// the machine.
    tests: &'static [&'static str],
}

const SUBJECTS: [Subject; 2] = [
    Subject {
        package: "lockhouse-core",
        folder: "crates/core/src",
        only: None,
        test_packages: &["lockhouse-core"],
        programs: &["--lib", "--test=core", "--test=memory"],
        tests: &["--skip", "cost::", "--skip", "parts::"],
    },
    Subject {
        package: "lockhouse",
        folder: "crates/lockhouse/src/engine",
        only: Some("outbox"),
        test_packages: &["lockhouse", "library-tests"],
        programs: &["--lib", "--test=library"],
        tests: &["engine::", "durability::", "recovery::"],
    },
];

/// The most changes of one file in a shard, which is the work that an interrupted run has to repeat.
const AT_ONCE: usize = 60;

/// The longest time of a shard.
const LIMIT: Duration = Duration::from_secs(45 * 60);

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Only files whose path contains this
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// Stop after so many shards; each takes 45 minutes at most
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Write each shard with its outcome to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Go on where that file ends: a shard that it has is not run again, unless its source has changed since
    #[arg(long, requires = "json")]
    resume: bool,
}

/// A part of the changes of one file.
struct Shard<'a> {
    subject: &'a Subject,
    file: String,
    /// The SHA-256 of the file.
    source: String,
    /// `1/2`: the first of two.
    part: String,
}

/// The result of a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Outcome {
    file: String,
    /// The SHA-256 of the file.
    source: String,
    part: String,
    /// The commit that was changed.
    commit: String,
    /// The version of cargo-mutants that changed it.
    tool: String,
    seconds: u64,
    caught: usize,
    /// Changes with which the tests no longer end.
    timeout: usize,
    /// Changes that do not compile.
    unviable: usize,
    /// The changes that no test noticed.
    missed: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    tool::install(&root)?;
    let version = tool::version()?;
    let copy = Copy::new(&root, true)?;
    copy.sync()?;
    let shards = shards(&copy, args.only.as_deref())?;
    let mut outcomes = match &args.json {
        Some(json) if args.resume && json.exists() => done_before(json)?,
        _ => Vec::new(),
    };
    let is_of =
        |outcome: &Outcome, shard: &Shard<'_>| outcome.source == shard.source && outcome.part == shard.part;
    let left: Vec<&Shard<'_>> =
        shards.iter().filter(|shard| !outcomes.iter().any(|outcome| is_of(outcome, shard))).collect();
    println!("{} shards, {} of them are left", shards.len(), left.len());
    let now = args.shards.unwrap_or(left.len()).min(left.len());
    let commit = tree::head(&root)?;
    let mut undone = left.len() - now;
    for shard in &left[..now] {
        let Some(outcome) = try_shard(&copy, shard, &commit, &version)? else {
            undone += 1;
            continue;
        };
        outcomes.retain(|other| other.file != outcome.file || other.source == outcome.source);
        outcomes.push(outcome);
        // The file is written after each shard: the whole takes long, and earlier results must not be lost
        // with the rest.
        if let Some(json) = &args.json {
            outcomes.sort_by(|a, b| (&a.file, &a.part).cmp(&(&b.file, &b.part)));
            fs::write(json, serde_json::to_vec_pretty(&outcomes)?)
                .with_context(|| format!("cannot write {}", json.display()))?;
        }
    }
    let present: Vec<Outcome> = shards
        .iter()
        .filter_map(|shard| {
            let outcome = outcomes.iter().find(|outcome| is_of(outcome, shard))?;
            // The file may have moved since.
            Some(Outcome { file: shard.file.clone(), ..outcome.clone() })
        })
        .collect();
    report(&present, undone, &survivors::read(&root)?)
}

/// All parts of all files.
fn shards(copy: &Copy, only: Option<&str>) -> Result<Vec<Shard<'static>>> {
    let mut shards = Vec::new();
    for subject in &SUBJECTS {
        let files = files(&copy.tree, subject)?;
        for (file, changes) in tool::list(copy, subject.package, &files)? {
            if only.is_some_and(|only| !file.contains(only)) {
                continue;
            }
            let source = sha256(&fs::read(copy.tree.join(&file))?);
            let parts = changes.div_ceil(AT_ONCE);
            shards.extend((1..=parts).map(|part| Shard {
                subject,
                file: file.clone(),
                source: source.clone(),
                part: format!("{part}/{parts}"),
            }));
        }
    }
    if shards.is_empty() {
        bail!("no such file is changed");
    }
    Ok(shards)
}

/// The SHA-256 of a source, as results name it.
pub(crate) fn sha256(source: &[u8]) -> String {
    Sha256::digest(source).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sources of a subject, relative to the tree.
fn files(tree: &Path, subject: &Subject) -> Result<Vec<String>> {
    let mut open = vec![tree.join(subject.folder)];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            let lies_in = |module: &str| {
                let module = OsStr::new(module);
                path.file_stem() == Some(module) || folder.file_name() == Some(module)
            };
            if path.is_dir() {
                open.push(path);
            } else if is_source && subject.only.is_none_or(lies_in) {
                files.push(path.strip_prefix(tree)?.to_string_lossy().into_owned());
            }
        }
    }
    ensure!(!files.is_empty(), "{} has no {}", subject.folder, subject.only.unwrap_or("sources"));
    files.sort();
    Ok(files)
}

/// None if the shard takes longer than a shard may.
fn try_shard(copy: &Copy, shard: &Shard<'_>, commit: &str, version: &str) -> Result<Option<Outcome>> {
    let started = Instant::now();
    copy.sync()?;
    let Some(found) = tool::run(copy, shard, LIMIT)? else {
        println!("{} {}: not done within {} s", shard.file, shard.part, LIMIT.as_secs());
        return Ok(None);
    };
    let outcome = Outcome {
        file: shard.file.clone(),
        source: shard.source.clone(),
        part: shard.part.clone(),
        commit: commit.to_owned(),
        tool: version.to_owned(),
        seconds: started.elapsed().as_secs(),
        caught: found.caught.len(),
        timeout: found.timeout.len(),
        unviable: found.unviable.len(),
        missed: found.missed,
    };
    println!("{} {}: {}, {} s", outcome.file, outcome.part, words(&outcome), outcome.seconds);
    Ok(Some(outcome))
}

fn words(outcome: &Outcome) -> String {
    let Outcome { caught, timeout, unviable, missed, .. } = outcome;
    format!("{caught} caught, {timeout} without an end, {unviable} do not compile, {} missed", missed.len())
}

/// The results of an earlier run.
fn done_before(json: &Path) -> Result<Vec<Outcome>> {
    let text = fs::read(json).with_context(|| format!("cannot read {}", json.display()))?;
    serde_json::from_slice(&text).with_context(|| json.display().to_string())
}

/// Reports each file, and the survivors without an argument.
fn report(outcomes: &[Outcome], left: usize, arguments: &[Argument]) -> Verdict {
    let mut files: BTreeMap<&str, Outcome> = BTreeMap::new();
    for outcome in outcomes {
        files
            .entry(&outcome.file)
            .and_modify(|sum| {
                sum.caught += outcome.caught;
                sum.timeout += outcome.timeout;
                sum.unviable += outcome.unviable;
                sum.missed.extend(outcome.missed.iter().cloned());
            })
            .or_insert_with(|| outcome.clone());
    }
    for outcome in files.values() {
        println!("{:<44} {}", outcome.file, words(outcome));
    }
    let unargued = survivors::unargued(files.values(), arguments);
    for survivor in &unargued {
        println!("survives without an argument in {}: {survivor}", survivors::FILE);
    }
    let missed: usize = files.values().map(|outcome| outcome.missed.len()).sum();
    println!("{left} shards left, {missed} survivors, {} without an argument", unargued.len());
    Ok(left == 0 && unargued.is_empty())
}
