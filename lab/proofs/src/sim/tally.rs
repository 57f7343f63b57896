//! The number of times that each class of event came up. A run in which a class hardly came up proves nothing
//! of it.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by class.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, class: &'static str, by: u64) {
        *self.0.entry(class).or_default() += by;
    }

    pub fn of(&self, class: &'static str) -> u64 {
        self.0.get(class).copied().unwrap_or(0)
    }

    pub fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(class, count)| self.add(class, *count));
    }

    /// The classes of these that came up less often.
    pub fn below(&self, floor: u64, expected: &[&'static str]) -> Vec<&'static str> {
        expected.iter().copied().filter(|class| self.of(class) < floor).collect()
    }

    pub fn as_map(&self) -> &BTreeMap<&'static str, u64> {
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

/// The classes of events that have to occur in a run of lives of one server.
pub const EXPECTED: &[&str] = &[
    "backup",
    "buckets dropped",
    "calendar is set",
    "claim: already assigned",
    "claim: busy",
    "claim: claimed",
    "claim: claimed by another",
    "claim: expired",
    "claim: finalized",
    "claim: lost",
    "claim: nothing to unassign",
    "claim: released",
    "claim: renewed",
    "claim: renewed at the last moment",
    "claim: told again",
    "claim: unassigned",
    "clean stop",
    "stop with a list",
    "client stands still",
    "commands",
    "crash",
    "disk is slow",
    "faults",
    "futures dropped",
    "link is cut",
    "offline: conflict",
    "offline: held already",
    "offline: locked",
    "offline: nothing to unlock",
    "offline: unlocked",
    "offline: upgraded",
    "owner: ended",
    "owner: opened",
    "owner: touched",
    "process stands still",
    "refused: owner gone",
    "refused: recovering",
    "refused: unavailable",
    "restore",
    "restore: a newer one",
    "restore: an older one",
    "restore: database lost",
    "restore: the same",
    "step: committed",
    "step: undone",
    "store does not answer",
    "store hangs",
    "store is unreliable",
    "store refuses everything",
    "store: answers lost",
    "store: calls stalled",
    "store: sections late",
    "store: sections lost",
    "store: sections refused",
    "store: takes failed",
    "swept over several ticks",
    "takeover",
    "unclean stop",
    "ended in mid-sweep",
    "unknown: fenced",
    "web: aborted",
    "web: agent ended",
    "web: agents ended",
    "web: clients killed",
    "web: connection broken off",
    "web: connection broken off for the client",
    "web: connects again",
    "web: fenced",
    "web: granted",
    "web: granted far away",
    "web: held too long",
    "web: no store",
    "web: no store for the answer",
    "web: queries",
    "web: queries refused",
    "web: reclaimed",
    "web: reclaims",
    "web: resumed",
    "web: sessions past their deadline",
    "web: signals",
    "web: stolen",
    "web: superseded",
    "web: timed out",
    "web: unavailable",
    "web: void tickets",
    "web: void tickets refused",
];
