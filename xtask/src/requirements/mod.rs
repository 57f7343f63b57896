//! `cargo xtask requirements`: joins `docs/requirements.md` with the tests that ran on the present tree.

mod checklist;
mod join;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;

use crate::rings::results::{RingResult, TestRun};
use crate::rings::run;
use crate::workspace::tree;
use crate::{Verdict, rings};
use checklist::Line;
use join::{Coverage, Joined};

/// The checklist, and how many lines each of its sections must have.
const CHECKLIST: &str = "docs/requirements.md";
const LINES: &[(&str, usize)] = &[("WL", 118), ("OL", 63), ("CL", 19)];

/// The sections of the checklist.
pub(crate) const SECTIONS: [&str; 3] = ["WL", "OL", "CL"];

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Which section: WL (Web Locks), OL (offline locks) or CL (claims)
    #[arg(default_value = "WL", value_parser = SECTIONS)]
    section: String,
    /// Write every line with its tests to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// List every line, not only the open ones
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let stamp = tree::stamp(&root)?;
    run_what_is_missing(&root, &stamp, &args.section)?;
    if let Some(json) = &args.json {
        let joined = join_section(&root, &stamp, &args.section)?;
        fs::write(json, serde_json::to_vec_pretty(&joined)?)
            .with_context(|| format!("cannot write {}", json.display()))?;
    }
    joined(&root, &stamp, &args.section, args.all)
}

/// Joins the known results of the tree `stamp` without running anything, and prints the verdict.
pub(crate) fn joined(root: &Path, stamp: &str, section: &str, all: bool) -> Verdict {
    let lines = join_section(root, stamp, section)?;
    for line in lines.iter().filter(|line| all || line.state == Coverage::Open) {
        println!("   {line}");
    }
    for (realm, covered) in lines_per_realm(&lines) {
        println!("   {realm}: {covered} lines");
    }
    let count = |state: Coverage| lines.iter().filter(|line| line.state == state).count();
    let open = count(Coverage::Open);
    println!(
        "{} lines: {} tested, {} argued, {open} open",
        lines.len(),
        count(Coverage::Tested),
        count(Coverage::Argued)
    );
    Ok(open == 0)
}

fn join_section(root: &Path, stamp: &str, section: &str) -> Result<Vec<Joined>> {
    let tests = tests_that_ran(root, stamp)?;
    Ok(section_lines(root, section)?.into_iter().map(|line| join::join(line, &tests)).collect())
}

fn section_lines(root: &Path, section: &str) -> Result<Vec<Line>> {
    let text =
        fs::read_to_string(root.join(CHECKLIST)).with_context(|| format!("cannot read {CHECKLIST}"))?;
    let lines = checklist::parse(&text).with_context(|| CHECKLIST.to_owned())?;
    let lines: Vec<Line> = lines.into_iter().filter(|line| line.id.starts_with(section)).collect();
    let wanted = LINES.iter().find(|(name, _)| *name == section).map_or(0, |(_, wanted)| *wanted);
    let expected = (1..=wanted).map(|number| format!("{section}-{number:03}"));
    if !lines.iter().map(|line| line.id.clone()).eq(expected) {
        bail!(
            "{CHECKLIST}: the section {section} must have {section}-001 to {section}-{wanted:03}, each once and in order"
        );
    }
    Ok(lines)
}

fn tests_that_ran(root: &Path, stamp: &str) -> Result<Vec<TestRun>> {
    let mut tests = Vec::new();
    for ring in rings::RINGS {
        tests
            .extend(RingResult::load(root, ring.name, stamp)?.map(|result| result.tests).unwrap_or_default());
    }
    Ok(tests)
}

/// Runs each ring that the section names and that has not run on the present tree.
fn run_what_is_missing(root: &Path, stamp: &str, section: &str) -> Result<()> {
    let lines = section_lines(root, section)?;
    let needed =
        |ring: &rings::Ring| lines.iter().any(|line| line.tests.iter().any(|test| test.ring() == ring.name));
    let mut missing = Vec::new();
    for ring in rings::RINGS.iter().filter(|ring| needed(ring)) {
        if RingResult::load(root, ring.name, stamp)?.is_none() {
            missing.push(ring);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    if let Err(error) = run::prepare(root).and_then(|()| run::build(root)) {
        println!("   setup failed: {error:#}");
    }
    run::run(missing, root, stamp);
    Ok(())
}

/// The number of lines that are shown in each kind of JavaScript context.
fn lines_per_realm(lines: &[Joined]) -> BTreeMap<String, usize> {
    let mut realms = BTreeMap::new();
    for line in lines {
        for realm in line.realms() {
            *realms.entry(realm).or_insert(0) += 1;
        }
    }
    realms
}
