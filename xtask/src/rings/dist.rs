//! The built output of the client and of the dashboard is committed, so that cargo alone builds the server;
//! this proves it fresh.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::rings::Run;
use crate::rings::results::TestRun;

/// Where the client is; its build goes into `dist` below it.
pub(crate) const CLIENT: &str = "clients/js";

/// Where the dashboard is; its build goes into `dist` below it.
pub(crate) const DASHBOARD: &str = "dashboard";

/// What npm builds and the server embeds.
pub(crate) const PROJECTS: [&str; 2] = [CLIENT, DASHBOARD];

/// Builds each again and compares; the folders are left as they were, modification times included, so that
/// nothing that embeds them is built anew.
pub(crate) fn ring(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let mut tests = Vec::new();
    for project in PROJECTS {
        tests.extend(compare(run, project)?);
    }
    Ok(tests)
}

fn compare(run: &Run<'_>, project: &str) -> Result<Vec<TestRun>> {
    let folder = run.root.join(project).join("dist");
    if !folder.is_dir() {
        bail!("{project}/dist is missing: run `cargo xtask fix`");
    }
    let committed = read(&folder)?;
    let built = build(run, project, &folder);
    restore(&folder, &committed)?;
    let built = built?;
    let tests = committed.keys().chain(built.keys().filter(|file| !committed.contains_key(*file)));
    let fresh = |file: &PathBuf| same(committed.get(file), built.get(file));
    let tests = tests.map(|file| TestRun {
        suite: "dist".to_owned(),
        name: format!("{project}: {} is what `npm run build` makes", file.display()),
        passed: fresh(file),
    });
    Ok(tests.collect())
}

struct SavedFile {
    bytes: Vec<u8>,
    modified: SystemTime,
}

fn build(run: &Run<'_>, project: &str, folder: &Path) -> Result<BTreeMap<PathBuf, SavedFile>> {
    // From nothing, so that a file which is no longer built shows.
    fs::remove_dir_all(folder)?;
    run.must(Command::new("npm").args(["run", "build", "--prefix", project]))?;
    read(folder)
}

fn same(committed: Option<&SavedFile>, built: Option<&SavedFile>) -> bool {
    matches!((committed, built), (Some(committed), Some(built)) if committed.bytes == built.bytes)
}

fn read(folder: &Path) -> Result<BTreeMap<PathBuf, SavedFile>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let saved = SavedFile { bytes: fs::read(&path)?, modified: fs::metadata(&path)?.modified()? };
                files.insert(path.strip_prefix(folder)?.to_path_buf(), saved);
            }
        }
    }
    Ok(files)
}

fn restore(folder: &Path, files: &BTreeMap<PathBuf, SavedFile>) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for (file, saved) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, &saved.bytes)?;
        File::options().write(true).open(&path)?.set_modified(saved.modified)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_restored_to_the_byte_and_the_instant() {
        let folder = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/a.js"), "one").unwrap();
        let before = read(&folder).unwrap();
        fs::write(folder.join("sub/a.js"), "two").unwrap();
        fs::write(folder.join("b.js"), "new").unwrap();
        restore(&folder, &before).unwrap();
        let after = read(&folder).unwrap();
        assert_eq!(after.keys().collect::<Vec<_>>(), [Path::new("sub/a.js")]);
        let file = &after[Path::new("sub/a.js")];
        assert_eq!(
            (file.bytes.as_slice(), file.modified),
            (&b"one"[..], before[Path::new("sub/a.js")].modified)
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
