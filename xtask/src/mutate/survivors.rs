//! The changes that no test notices, each with the argument why that is right.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Outcome;

pub(super) const FILE: &str = "docs/evidence/survivors.json";

/// Why a change of the code is none of its behaviour.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Argument {
    file: String,
    /// The change as cargo-mutants reports it, without its place.
    mutant: String,
    /// The number of changes of these words for which the argument holds.
    #[serde(default = "once")]
    times: usize,
    argument: String,
}

fn once() -> usize {
    1
}

pub(super) fn read(root: &Path) -> Result<Vec<Argument>> {
    let text = fs::read(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    serde_json::from_slice(&text).with_context(|| FILE.to_owned())
}

/// The survivors that no argument covers, with their places.
pub(super) fn unargued<'a>(
    outcomes: impl IntoIterator<Item = &'a Outcome>,
    arguments: &[Argument],
) -> Vec<String> {
    let argued = arguments.iter().filter(|argument| !argument.argument.trim().is_empty());
    let mut argued: BTreeMap<(&str, &str), usize> =
        argued.map(|it| ((&*it.file, &*it.mutant), it.times)).collect();
    let mut unargued = Vec::new();
    for outcome in outcomes {
        for missed in &outcome.missed {
            match argued.get_mut(&(&*outcome.file, words(missed))) {
                Some(times @ 1..) => *times -= 1,
                _ => unargued.push(missed.clone()),
            }
        }
    }
    unargued
}

/// `crates/core/src/queue.rs:7:3: replace > with >= in f` without its place, which other changes move.
fn words(mutant: &str) -> &str {
    mutant.split_once(": ").map_or(mutant, |(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(missed: &[&str]) -> Outcome {
        Outcome {
            file: "a.rs".into(),
            source: "00".into(),
            part: "1/1".into(),
            commit: "53ae8c3".into(),
            tool: "cargo-mutants".into(),
            seconds: 1,
            caught: 1,
            timeout: 0,
            unviable: 0,
            missed: missed.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    fn argument(mutant: &str, times: usize, argument: &str) -> Argument {
        Argument { file: "a.rs".into(), mutant: mutant.into(), times, argument: argument.into() }
    }

    #[test]
    fn an_argument_holds_for_as_many_changes_as_it_says_wherever_they_stand() {
        let outcome = missed(&["a.rs:1:2: replace > with >= in f", "a.rs:3:4: replace > with >= in f"]);
        let words = "replace > with >= in f";
        assert_eq!(unargued([&outcome], &[]).len(), 2);
        assert_eq!(unargued([&outcome], &[argument(words, 1, "so")]), ["a.rs:3:4: replace > with >= in f"]);
        assert_eq!(unargued([&outcome], &[argument(words, 2, "so")]).len(), 0);
        assert_eq!(unargued([&outcome], &[argument(words, 2, " ")]).len(), 2, "an empty one is none");
        assert_eq!(unargued([&outcome], &[argument("replace f with ()", 2, "so")]).len(), 2);
    }
}
