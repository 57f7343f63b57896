//! Figures, for people and for programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

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

/// Writes the figures as JSON, with the commit that they are of, if it is known.
pub fn write_json(figures: &[Figure], commit: Option<&str>, file: &Path) -> Result<()> {
    let written = serde_json::json!({ "commit": commit, "figures": figures });
    let text = serde_json::to_string_pretty(&written)?;
    fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
}

/// The last commit of the project, and whether its code has changed since.
///
/// # Errors
///
/// The project is no clone, or git is missing.
pub fn commit() -> Result<String> {
    let git = |args: &[&str]| -> Result<String> {
        let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(args).output()?;
        ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let changes = git(&["status", "--porcelain", "--", "..", ":!../docs"])?;
    Ok(git(&["rev-parse", "HEAD"])? + if changes.is_empty() { "" } else { ", changed" })
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

fn rounded(value: f64) -> String {
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
