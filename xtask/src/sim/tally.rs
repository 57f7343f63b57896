//! How often everything came up: a run in which something hardly did proves nothing of it.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&mut self, class: &'static str, by: u64) {
        *self.0.entry(class).or_default() += by;
    }

    pub(crate) fn of(&self, class: &'static str) -> u64 {
        self.0.get(class).copied().unwrap_or(0)
    }

    pub(crate) fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(class, count)| self.add(class, *count));
    }

    /// All that came up less often.
    pub(crate) fn below(&self, floor: u64) -> Vec<&'static str> {
        EXPECTED.iter().copied().filter(|class| self.of(class) < floor).collect()
    }

    pub(crate) fn as_map(&self) -> &BTreeMap<&'static str, u64> {
        &self.0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (class, count) in &self.0 {
            writeln!(f, "{count:>12}  {class}")?;
        }
        Ok(())
    }
}

/// What has to come up in a run.
const EXPECTED: &[&str] = &[];
