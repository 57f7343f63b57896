//! The results of a run as a file, with the commit that they are of.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::workspace::tree;

/// Writes the members of `result` as JSON, and the commit as one of them.
pub(crate) fn write(path: &Path, mut result: Value) -> Result<()> {
    result["commit"] = tree::commit(&tree::root()?)?.into();
    fs::write(path, serde_json::to_vec_pretty(&result)?)
        .with_context(|| format!("cannot write {}", path.display()))
}
