//! The figures of fleets, side by side.

use serde_json::{Value, json};

/// The figures of one fleet, in order.
#[derive(Debug, Default, PartialEq)]
pub struct Figures(Vec<Figure>);

#[derive(Debug, PartialEq)]
struct Figure {
    what: &'static str,
    value: f64,
    /// The digits behind the point.
    digits: usize,
    unit: &'static str,
}

impl Figures {
    pub fn count(&mut self, what: &'static str, value: u64) {
        self.push(what, value as f64, 0, "");
    }

    /// Of each of so many.
    pub fn each(&mut self, what: &'static str, sum: u64, count: u64) {
        self.push(what, sum as f64 / count.max(1) as f64, 1, "");
    }

    pub fn rate(&mut self, what: &'static str, value: f64) {
        self.push(what, value, 1, "");
    }

    /// A time, of which the milliseconds are given.
    pub fn seconds(&mut self, what: &'static str, ms: u64) {
        self.push(what, ms as f64 / 1000.0, 2, " s");
    }

    fn push(&mut self, what: &'static str, value: f64, digits: usize, unit: &'static str) {
        self.0.push(Figure { what, value, digits, unit });
    }

    /// The value of that figure, which there must be.
    pub fn get(&self, what: &str) -> f64 {
        let found = self.0.iter().find(|figure| figure.what == what);
        found.unwrap_or_else(|| panic!("no figure {what:?}")).value
    }
}

/// The table of several fleets, as it stands in a document.
pub fn table(fleets: &[(usize, Figures)]) -> String {
    let mut lines = vec![vec!["figure".to_owned()], vec!["---".to_owned()]];
    for (nodes, _) in fleets {
        lines[0].push(format!("{nodes} nodes"));
        lines[1].push("---:".to_owned());
    }
    let rows = fleets.first().map_or(0, |(_, figures)| figures.0.len());
    for row in 0..rows {
        let mut line = vec![fleets[0].1.0[row].what.to_owned()];
        line.extend(fleets.iter().map(|(_, figures)| {
            let Figure { value, digits, unit, .. } = figures.0[row];
            format!("{value:.digits$}{unit}")
        }));
        lines.push(line);
    }
    lines.into_iter().map(|cells| format!("| {} |\n", cells.join(" | "))).collect()
}

/// The same for programs.
pub fn to_json(fleets: &[(usize, Figures)]) -> Value {
    let of_fleet = |(nodes, figures): &(usize, Figures)| {
        let figures: Vec<Value> =
            figures.0.iter().map(|figure| json!({"what": figure.what, "value": figure.value})).collect();
        json!({"nodes": nodes, "figures": figures})
    };
    fleets.iter().map(of_fleet).collect()
}
