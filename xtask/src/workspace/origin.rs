//! The tree and the machine that a result is of.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::tree;

/// The tree and the machine that a result is of.
#[derive(Clone, Debug, Serialize)]
pub struct RunOrigin {
    /// The last commit, and whether anything on which results depend has changed since.
    pub commit: String,
    /// The name of the processor's model; empty if the system does not tell it.
    pub processor: String,
    /// The system's kernel and its release; empty likewise.
    pub kernel: String,
}

impl RunOrigin {
    /// This machine, and the tree as it is now.
    ///
    /// # Errors
    ///
    /// The project is no clone, or git is missing.
    pub fn of(root: &Path) -> Result<Self> {
        Ok(Self { commit: tree::commit(root)?, processor: processor(), kernel: kernel() })
    }
}

fn processor() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        about.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name");
    model.map_or(String::new(), |(_, model)| model.trim().to_owned())
}

fn kernel() -> String {
    let system = rustix::system::uname();
    format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy())
}
