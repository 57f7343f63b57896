//! Figures, for people and for programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;
use xtask::workspace::origin::RunOrigin;

use crate::server::{POSTGRES_FOLDER, process, root};

/// The direction that is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// Ours beside one peer in one job.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    id: String,
    peer: &'static str,
    ours: f64,
    peer_value: f64,
    unit: &'static str,
    ratio: f64,
    target: Option<f64>,
    met: Option<bool>,
    rounds: usize,
    better: Better,
    samples: Samples,
}

/// The results of the rounds, in order.
#[derive(Clone, Debug, Default, Serialize)]
struct Samples {
    ours: Vec<f64>,
    peer: Vec<f64>,
}

impl Figure {
    /// A figure without samples yet.
    pub fn new(
        id: String,
        peer: &'static str,
        unit: &'static str,
        better: Better,
        target: Option<f64>,
    ) -> Self {
        let (ours, peer_value, ratio, rounds) = (f64::NAN, f64::NAN, f64::NAN, 0);
        Self {
            id,
            peer,
            ours,
            peer_value,
            unit,
            ratio,
            target,
            met: None,
            rounds,
            better,
            samples: Samples::default(),
        }
    }

    /// The work that was measured.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The same with what the rounds gave: the values are medians, the ratio is that of the medians.
    #[must_use]
    pub fn with_samples(mut self, ours: Vec<f64>, peer: Vec<f64>) -> Self {
        self.ours = median(&ours);
        self.peer_value = median(&peer);
        // Two zeros are alike.
        self.ratio = if self.ours == self.peer_value { 1.0 } else { self.ours / self.peer_value };
        self.met = self.target.map(|target| match self.better {
            Better::Higher => self.ratio >= target,
            Better::Lower => self.ratio <= target,
        });
        self.rounds = ours.len();
        self.samples = Samples { ours, peer };
        self
    }
}

/// The middle of the values, or the mean of the two in the middle; NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => f64::NAN,
        (middle, 0) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        (middle, _) => sorted[middle],
    }
}

/// Prints the table. The rows of one id stand together, under its name.
pub fn print(figures: &[Figure]) {
    let header = ["id", "peer", "ours", "peer's", "unit", "ratio", "target", "met"].map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(header).chain(figures.iter().map(cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut last = "";
    for row in &rows {
        let mut line = String::new();
        let is_repeated = row[0] == last;
        last = &row[0];
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let cell = if column == 0 && is_repeated { "" } else { cell };
            let padding = " ".repeat(width - cell.chars().count());
            let is_number = matches!(column, 2 | 3 | 5 | 6);
            line += &if is_number { format!("{padding}{cell}  ") } else { format!("{cell}{padding}  ") };
        }
        println!("{}", line.trim_end());
    }
}

/// What figures are of.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The tree and the machine; absent if another program was measured.
    #[serde(flatten)]
    origin: Option<RunOrigin>,
    /// The arguments of the run.
    arguments: Vec<String>,
    /// The versions of the peers that are programs, as far as they are there, by their names.
    versions: BTreeMap<&'static str, String>,
}

impl Run {
    /// The run that begins now; `is_given` if it measures a program that was built elsewhere.
    ///
    /// # Errors
    ///
    /// The project is no clone, or git is missing.
    pub fn begin(is_given: bool) -> Result<Self> {
        let origin = if is_given { None } else { Some(RunOrigin::of(&root())?) };
        Ok(Self { origin, arguments: std::env::args().skip(1).collect(), versions: BTreeMap::new() })
    }
}

/// Writes the figures as JSON, with what they are of.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_json(figures: &[Figure], mut run: Run, file: &Path) -> Result<()> {
    run.versions = versions();
    let mut written = serde_json::to_value(run)?;
    written["figures"] = serde_json::to_value(figures)?;
    let text = serde_json::to_string_pretty(&written)?;
    fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
}

/// The programs of the peers, by their names.
const PROGRAMS: [(&str, &str); 5] = [
    ("Redis", "redis-server"),
    ("PostgreSQL", "postgres"),
    ("etcd", "etcd"),
    ("Chromium", "chromium"),
    ("Node.js", "node"),
];

fn versions() -> BTreeMap<&'static str, String> {
    let version = |name: &str| {
        let program = process::search(name, &[POSTGRES_FOLDER])?;
        let output = Command::new(program).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
    };
    PROGRAMS.into_iter().filter_map(|(name, program)| Some((name, version(program)?))).collect()
}

fn cells(figure: &Figure) -> [String; 8] {
    let sign = match figure.better {
        Better::Higher => "≥",
        Better::Lower => "≤",
    };
    [
        figure.id.clone(),
        figure.peer.to_owned(),
        rounded(figure.ours),
        rounded(figure.peer_value),
        figure.unit.to_owned(),
        format!("{:.2}", figure.ratio),
        figure.target.map_or("–".to_owned(), |target| format!("{sign} {target}")),
        figure.met.map_or("–", |met| if met { "✓" } else { "✗" }).to_owned(),
    ]
}

/// With as many digits as tell figures apart.
pub(crate) fn rounded(value: f64) -> String {
    match value {
        millions if millions >= 1e6 => format!("{:.2}M", millions / 1e6),
        thousands if thousands >= 1e4 => format!("{:.1}k", thousands / 1e3),
        hundreds if hundreds >= 100.0 => format!("{hundreds:.0}"),
        small => format!("{small:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_target_is_met_in_the_direction_that_is_better() {
        let met = |better, target| {
            Figure::new("x".to_owned(), "peer", "", better, Some(target))
                .with_samples(vec![2.0], vec![1.0])
                .met
        };
        assert_eq!(met(Better::Higher, 2.0), Some(true));
        assert_eq!(met(Better::Higher, 2.1), Some(false));
        assert_eq!(met(Better::Lower, 2.0), Some(true));
        assert_eq!(met(Better::Lower, 1.9), Some(false));
    }
}
