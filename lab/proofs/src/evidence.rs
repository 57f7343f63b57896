//! The results of a run as a file, with the tree and the machine that they are of.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::workspace::origin::RunOrigin;
use xtask::workspace::tree;

/// Writes the members of `result` as JSON, and those of its [`RunOrigin`] among them.
pub fn write(path: &Path, mut result: Value) -> Result<()> {
    let RunOrigin { commit, processor, kernel } = RunOrigin::of(&tree::root()?)?;
    for (key, value) in [("commit", commit), ("processor", processor), ("kernel", kernel)] {
        result[key] = value.into();
    }
    fs::write(path, serde_json::to_vec_pretty(&result)?)
        .with_context(|| format!("cannot write {}", path.display()))
}
