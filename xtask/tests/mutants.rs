//! A planted bug that no longer fits the code or the tests is found here, and not only when it is planted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Per promise of ARCHITECTURE.md. Fewer leave one without its own, or a ring, or a fault of an engine; more
/// cost every change of the code that they lie in.
const FEWEST_PER_PROMISE: usize = 3;
const MOST_PER_PROMISE: usize = 6;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn planted_bugs(root: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(root.join("tests/mutants")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "patch")).collect()
}

#[test]
fn every_planted_bug_still_applies() {
    let root = root();
    let mut stale = Vec::new();
    let mut patches = 0;
    for path in planted_bugs(root) {
        patches += 1;
        let check =
            Command::new("git").args(["apply", "--check"]).arg(&path).current_dir(root).output().unwrap();
        if !check.status.success() {
            stale.push(format!("{}: {}", path.display(), String::from_utf8_lossy(&check.stderr).trim()));
        }
    }
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let is_promise =
        |line: &&str| line.split_once(". **").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
    let promises = architecture.lines().filter(is_promise).count();
    let bounds = promises * FEWEST_PER_PROMISE..=promises * MOST_PER_PROMISE;
    assert!(bounds.contains(&patches), "{patches} planted bugs, not {bounds:?} (tests/mutants/README.md)");
    assert!(stale.is_empty(), "make these patches anew (tests/mutants/README.md):\n{}", stale.join("\n"));
}

/// The rings that run the tests of folders, whose names a filter chooses.
const FOLDERS: [(&str, &[&str]); 7] = [
    ("core", &["crates/core"]),
    ("store", &["crates/store"]),
    ("library", &["crates/lockhouse"]),
    ("wire", &["crates/wire"]),
    ("server", &["crates/server", "crates/cli", "crates/program", "crates/lockhouse/tests/remote"]),
    ("fuzz", &["tests/fuzz"]),
    ("interleavings", &["tests/interleavings"]),
];

#[test]
fn every_planted_bug_names_a_test_that_exists() {
    let root = root();
    let mut unknown = Vec::new();
    for path in planted_bugs(root) {
        let patch = fs::read_to_string(&path).unwrap();
        let ring = patch.lines().find_map(|line| line.strip_prefix("ring: ")).unwrap();
        let (name, filter) = ring.split_once(' ').unwrap_or((ring, ""));
        let Some((_, folders)) = FOLDERS.iter().find(|(ring, _)| *ring == name) else { continue };
        let mut names = String::new();
        folders.iter().for_each(|folder| add_names(&root.join(folder), &mut names));
        unknown.extend(
            filter
                .split_whitespace()
                .filter(|word| !names.contains(word))
                .map(|word| format!("{}: no test of {folders:?} has {word} in its name", path.display())),
        );
    }
    assert!(unknown.is_empty(), "correct these rings:\n{}", unknown.join("\n"));
}

/// Adds the names of all functions, modules and files below a folder.
fn add_names(folder: &Path, names: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        names.extend(path.file_stem().and_then(|stem| stem.to_str()));
        names.push('\n');
        if path.is_dir() {
            add_names(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let is_named = |line: &&str| line.contains("fn ") || line.contains("mod ");
            text.lines().filter(is_named).for_each(|line| {
                names.push_str(line);
                names.push('\n');
            });
        }
    }
}
