//! The counts that were accepted, by version of the compiler, each with the reason.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::paths::HotPath;

/// Where they stand in the tree.
const FILE: &str = "tests/guard/counts.json";

/// How much more than accepted fails.
const MOST_MORE: f64 = 0.03;
/// The same where the counts are of another compiler or another processor.
const MOST_MORE_ELSEWHERE: f64 = 0.3;

/// All of them, and the toolchain that counts now.
#[derive(Debug)]
pub(super) struct Accepted {
    toolchain: String,
    all: BTreeMap<String, BTreeMap<String, Count>>,
}

/// One count.
#[derive(Debug, Deserialize, Serialize)]
struct Count {
    instructions: u64,
    reason: String,
}

impl Accepted {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let output = Command::new("rustc").arg("-V").output().context("cannot start rustc")?;
        ensure!(output.status.success(), "rustc -V: {}", output.status);
        let toolchain = format!("{}, {ARCH}", String::from_utf8_lossy(&output.stdout).trim());
        let text = fs::read(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        let all = serde_json::from_slice(&text).with_context(|| format!("{FILE} is none of ours"))?;
        Ok(Self { toolchain, all })
    }

    pub(super) fn toolchain(&self) -> &str {
        &self.toolchain
    }

    /// The count of a path, and how much more of it fails: with another toolchain than those that counts are
    /// of, much more than the largest of theirs.
    pub(super) fn of(&self, path: HotPath) -> Result<(u64, f64)> {
        let of = |counts: &BTreeMap<String, Count>| counts.get(path.word()).map(|count| count.instructions);
        if let Some(count) = self.all.get(&self.toolchain).and_then(of) {
            return Ok((count, MOST_MORE));
        }
        let word = path.word();
        let largest = self.all.values().filter_map(of).max();
        let largest = largest.with_context(|| format!("{FILE} has no count of {word}"))?;
        Ok((largest, MOST_MORE_ELSEWHERE))
    }

    /// Whether counts are of the present toolchain.
    pub(super) fn is_known(&self) -> bool {
        self.all.contains_key(&self.toolchain)
    }

    pub(super) fn accept(&mut self, path: HotPath, instructions: u64, reason: &str) {
        let count = Count { instructions, reason: reason.to_owned() };
        self.all.entry(self.toolchain.clone()).or_default().insert(path.word().to_owned(), count);
    }

    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(&self.all)?;
        text.push(b'\n');
        fs::write(root.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }
}
