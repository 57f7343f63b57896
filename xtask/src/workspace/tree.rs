//! The project's folder, and what stands in it right now.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Files on which results do not depend: writing the checklist or filing evidence does not make a test run
/// stale.
const NOT_UNDER_TEST: [&str; 2] = ["docs/requirements.md", "docs/evidence"];

/// The root of the workspace, found at run time so that a copy of the tree uses itself.
pub fn root() -> Result<PathBuf> {
    let start = match env::var_os("CARGO_MANIFEST_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => env::current_dir()?,
    };
    let root = start.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    Ok(root.context("no Cargo.lock above this folder: run `cargo xtask` inside the project")?.to_path_buf())
}

/// Where cargo builds.
pub fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// Where results of the last run lie; made if it is not there.
pub(crate) fn results_folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/results");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Where the last run left its logs and secrets.
pub(crate) fn traces_folder(root: &Path) -> Result<PathBuf> {
    Ok(results_folder(root)?.join("traces"))
}

/// Names the content of the present tree, uncommitted changes and new files included.
pub(crate) fn stamp(root: &Path) -> Result<String> {
    // A throw-away index, so that the developer's own is left alone. The file must not exist: git refuses an
    // empty one.
    let index = root.join(format!("target/stamp.{}.index", std::process::id()));
    fs::create_dir_all(root.join("target"))?;
    let git = |args: &[&str]| {
        capture(Command::new("git").env("GIT_INDEX_FILE", &index).args(args).current_dir(root))
    };
    let stamp = git(&["add", "--all", "."]).and_then(|_| {
        let unstage = ["rm", "-r", "-q", "--cached", "--ignore-unmatch", "--"];
        git(&[unstage.as_slice(), &NOT_UNDER_TEST].concat())?;
        git(&["write-tree"])
    });
    let _ = fs::remove_file(&index);
    Ok(stamp.context("cannot name the present tree")?.trim().to_owned())
}

/// The tree's files, relative to the root: tracked ones as they are now, and new ones that are not ignored.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let list = capture(Command::new("git").args(args).current_dir(root))?;
    let mut files: Vec<PathBuf> =
        list.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// The hash of the last commit.
pub(crate) fn head(root: &Path) -> Result<String> {
    Ok(capture(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root))?.trim().to_owned())
}

/// The last commit, and whether anything on which results depend has changed since.
///
/// # Errors
///
/// The project is no clone, or git is missing.
pub fn commit(root: &Path) -> Result<String> {
    let others = NOT_UNDER_TEST.map(|path| format!(":!{path}"));
    let mut status = Command::new("git");
    status.args(["status", "--porcelain", "--", "."]).args(&others).current_dir(root);
    let suffix = if capture(&mut status)?.is_empty() { "" } else { ", changed" };
    Ok(head(root)? + suffix)
}

/// Whether the whole hash names a commit of which the present one is a descendant, or which it is.
pub(crate) fn is_commit(root: &Path, commit: &str) -> bool {
    let is_hash = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut ancestor = Command::new("git");
    ancestor.args(["merge-base", "--is-ancestor", commit, "HEAD"]).current_dir(root);
    is_hash && ancestor.output().is_ok_and(|output| output.status.success())
}

/// How many commits after that one have changed something below these paths.
pub(crate) fn commits_since(root: &Path, commit: &str, paths: &[&str]) -> Result<usize> {
    let mut log = Command::new("git");
    log.args(["rev-list", "--count", &format!("{commit}..HEAD"), "--"]).args(paths).current_dir(root);
    Ok(capture(&mut log)?.trim().parse()?)
}

fn capture(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
