//! The page of figures: `docs/benchmarks.md` and its plots, made of the files in `docs/evidence`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::inproc::crowd::CROWDS;
use crate::plot::{self, Bar, Curve};
use crate::report::rounded;
use crate::server::root;

/// A file of figures, as `--json` writes it.
#[derive(Debug, Deserialize)]
struct Filed {
    commit: String,
    processor: String,
    kernel: String,
    arguments: Vec<String>,
    versions: BTreeMap<String, String>,
    figures: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    peer: String,
    ours: Option<f64>,
    peer_value: Option<f64>,
    unit: String,
    ratio: Option<f64>,
    target: Option<f64>,
    met: Option<bool>,
    rounds: usize,
    better: String,
}

/// The suites, in the order of the page, and what each is about.
const SUITES: [(&str, &str); 4] = [
    ("inproc", "The library beside keyed locks of other crates, in one process."),
    ("server", "The server beside lock services, and the JavaScript client beside the browser's own locks."),
    ("durable", "What is on the disk before it is answered, beside others that keep it."),
    (
        "cluster",
        "A fleet over PostgreSQL beside a lock table in the same PostgreSQL, and clients that come to a node \
         that does not have their bucket.",
    ),
];

/// Where a bar ends at the latest.
const MOST_TIMES: f64 = 20.0;

const INTRODUCTION: &str = "\
# Benchmarks

lockhouse beside what users would pick instead, measured in turn within one run. `cargo xtask bench --publish` makes
this page of the figures in [evidence](evidence); `cargo xtask bench` measures anew. What each row does, and the rules of
a fair comparison, are in [bench/README.md](../bench/README.md).

The plots show how many times better ours is, be it more per second or fewer bytes. A black tick is the target of
the row: a bar that reaches it is green, one that does not is orange, and one without a target is grey. The ratio of
the tables is always ours ÷ peer. All of this holds on the machine that is named; another processor has other ratios.
";

impl Row {
    /// How many times better that ratio is.
    fn times(&self, ratio: f64) -> f64 {
        if self.better == "lower" { 1.0 / ratio } else { ratio }
    }

    fn bar(&self) -> Option<Bar> {
        let label = format!("{} beside {}", self.id, self.peer);
        let target = self.target.map(|target| self.times(target));
        // Nothing beside something is without end.
        let times = self.times(self.ratio?).min(MOST_TIMES);
        (times > 0.0).then_some(Bar { label, times, target })
    }

    fn cells(&self) -> String {
        let value = |value: Option<f64>| value.map_or("–".to_owned(), rounded);
        let (ratio, target) = self.ratio_and_target();
        let met = self.met.map_or("", |met| if met { "✓" } else { "✗" });
        let Self { id, peer, ours, peer_value, unit, .. } = self;
        format!(
            "| `{id}` | {peer} | {} | {} | {unit} | {ratio} | {target} | {met} |",
            value(*ours),
            value(*peer_value)
        )
    }

    fn ratio_and_target(&self) -> (String, String) {
        let sign = if self.better == "lower" { "≤" } else { "≥" };
        let ratio = self.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
        (ratio, self.target.map_or("–".to_owned(), |target| format!("{sign} {target}")))
    }

    /// Whether it is a point of a curve, which a plot shows.
    fn is_point(&self) -> bool {
        CROWDS.iter().any(|(suffix, _)| self.id.ends_with(suffix))
    }
}

/// Writes the page.
///
/// # Errors
///
/// There are no figures, or the page cannot be written.
pub fn publish() -> Result<()> {
    let docs = root().join("docs");
    let plots = docs.join("benchmarks");
    fs::create_dir_all(&plots)?;
    let mut page = INTRODUCTION.to_owned();
    let mut missed = Vec::new();
    let mut count = 0;
    for (suite, about) in SUITES {
        let file = docs.join(format!("evidence/bench-{suite}.json"));
        if !file.exists() {
            continue;
        }
        let filed: Filed = serde_json::from_slice(&fs::read(&file)?)
            .with_context(|| format!("{} is no file of figures", file.display()))?;
        page += &section(suite, about, &filed, &plots)?;
        missed.extend(filed.figures.into_iter().filter(|row| row.met == Some(false)));
        count += 1;
    }
    ensure!(count > 0, "docs/evidence has no bench-SUITE.json of any suite");
    page += &not_reached(&missed)?;
    let file = docs.join("benchmarks.md");
    fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))
}

fn section(suite: &str, about: &str, filed: &Filed, plots: &Path) -> Result<String> {
    let mut text = format!("\n## {suite}\n\n{about}\n\n");
    let Filed { commit, processor, kernel, arguments, versions, figures } = filed;
    let rounds = figures.iter().map(|row| row.rounds).max().unwrap_or(0);
    writeln!(
        text,
        "Commit {commit}, {processor}, {kernel}; medians of {rounds} rounds of `cargo xtask bench {}`.",
        arguments.join(" ")
    )?;
    if suite != "inproc" {
        let versions: Vec<String> =
            versions.iter().map(|(name, version)| format!("{name}: {version}")).collect();
        writeln!(text, "{}.", versions.join("; "))?;
    }
    let (points, rows): (Vec<&Row>, Vec<&Row>) = figures.iter().partition(|row| row.is_point());
    // The CPU beside a rate has no target and mostly says the same.
    let bars: Vec<Bar> =
        rows.iter().filter(|row| !row.id.ends_with("-cpu")).filter_map(|row| row.bar()).collect();
    plot::bars(&bars, &plots.join(format!("{suite}.svg")))?;
    writeln!(text, "\n![How many times better ours is, row by row](benchmarks/{suite}.svg)")?;
    for id in ["growth-held", "growth-names", "growth-queue", "growth-drain"] {
        let curves = curves(id, &points);
        if !curves.is_empty() {
            plot::curves(id, "CPU ns each", &curves, &plots.join(format!("{id}.svg")))?;
            writeln!(text, "\n![{id}: what one costs among how many](benchmarks/{id}.svg)")?;
        }
    }
    writeln!(
        text,
        "\n| id | peer | ours | peer's | unit | ratio | target | |\n|---|---|---:|---:|---|---:|---:|---|"
    )?;
    for row in rows {
        writeln!(text, "{}", row.cells())?;
    }
    Ok(text)
}

/// Ours, and each peer, over the size of the crowd.
fn curves(id: &str, points: &[&Row]) -> Vec<Curve> {
    let rows: Vec<(f64, &Row)> = CROWDS
        .iter()
        .flat_map(|(suffix, crowd)| {
            let name = format!("{id}-{suffix}");
            points.iter().filter(move |row| row.id == name).map(|row| (*crowd as f64, *row))
        })
        .collect();
    let mut curves: Vec<Curve> = Vec::new();
    for (crowd, row) in rows {
        let is_new = |label: &str, curves: &[Curve]| {
            let known = curves.iter().find(|curve| curve.label == label);
            known.is_none_or(|curve| curve.points.iter().all(|(size, _)| *size != crowd))
        };
        for (label, value) in [("lockhouse", row.ours), (&*row.peer, row.peer_value)] {
            let Some(value) = value.filter(|_| is_new(label, &curves)) else { continue };
            match curves.iter_mut().find(|curve| curve.label == label) {
                Some(curve) => curve.points.push((crowd, value)),
                None => curves.push(Curve { label: label.to_owned(), points: vec![(crowd, value)] }),
            }
        }
    }
    curves
}

fn not_reached(missed: &[Row]) -> Result<String> {
    let mut text = "\n## What is not reached\n\n".to_owned();
    if missed.is_empty() {
        text += "Every row reaches its target.\n";
        return Ok(text);
    }
    text += "What each remaining part of these rows costs, and what was tried, is in\n\
             [bench/README.md](../bench/README.md#what-is-not-reached-and-why).\n\n\
             | id | peer | ratio | target |\n|---|---|---:|---:|\n";
    for row in missed {
        let (ratio, target) = row.ratio_and_target();
        writeln!(text, "| `{}` | {} | {ratio} | {target} |", row.id, row.peer)?;
    }
    Ok(text)
}
