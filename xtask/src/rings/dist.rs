//! The built output of the client and of the dashboard is committed, so that cargo alone builds the server;
//! this proves it fresh.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::rings::Run;
use crate::rings::results::TestRun;
use crate::workspace::tree;

/// Where the client is; its build goes into `dist` below it.
pub(crate) const CLIENT: &str = "clients/js";

/// Where the dashboard is; its build goes into `dist` below it.
pub(crate) const DASHBOARD: &str = "dashboard";

/// What npm builds and the server embeds.
pub(crate) const PROJECTS: [&str; 2] = [CLIENT, DASHBOARD];

/// Builds each again, in a folder below the build's output, and compares.
pub(crate) fn ring(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let mut tests = Vec::new();
    for project in PROJECTS {
        let folder = run.root.join(project).join("dist");
        if !folder.is_dir() {
            bail!("{project}/dist is missing: run `cargo xtask fix`");
        }
        let built = tree::target(run.root).join("dist").join(project);
        let mut build = Command::new("npm");
        build.args(["run", "build", "--prefix", project, "--", "--emptyOutDir", "--outDir"]).arg(&built);
        run.must(&mut build)?;
        tests.extend(compare(project, &read(&folder)?, &read(&built)?));
    }
    Ok(tests)
}

/// The files of a folder, by their path below it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// One test for each file that is in either.
fn compare(project: &str, committed: &Files, built: &Files) -> Vec<TestRun> {
    let files = committed.keys().chain(built.keys().filter(|file| !committed.contains_key(*file)));
    let test = |file: &PathBuf| TestRun {
        suite: "dist".to_owned(),
        name: format!("{project}: {} is what `npm run build` makes", file.display()),
        passed: committed.get(file) == built.get(file),
    };
    files.map(test).collect()
}

fn read(folder: &Path) -> Result<Files> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.insert(path.strip_prefix(folder)?.to_path_buf(), fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_or_is_in_one_folder_alone_is_not_fresh() {
        let files = |files: &[(&str, &str)]| -> Files {
            files.iter().map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec())).collect()
        };
        let committed = files(&[("same", "1"), ("changed", "1"), ("gone", "1")]);
        let built = files(&[("same", "1"), ("changed", "2"), ("new", "1")]);
        let passed: Vec<bool> = compare("p", &committed, &built).iter().map(|test| test.passed).collect();
        // In the order of the names, and those that are only built at the end: changed, gone, same, new.
        assert_eq!(passed, [false, false, true, false]);
    }
}
