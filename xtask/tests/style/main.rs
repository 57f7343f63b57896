//! The rules of the house that a machine can check. Each failure says what to do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that one reads in one go; test files may be longer.
const MAX_LINES: usize = 600;

/// Whatever git tracks or would track and is text, with its content. What tools write (lock files, built output) is not style.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let args = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(args).current_dir(root).output().unwrap();
    assert!(output.status.success(), "git ls-files failed");
    let generated = |name: &str| {
        name.contains("/dist/") || name.ends_with("package-lock.json") || name.ends_with("Cargo.lock")
    };
    let names = String::from_utf8(output.stdout).unwrap();
    let mut sources = Vec::new();
    for name in names.lines().filter(|name| !generated(name)) {
        let path: PathBuf = root.join(name);
        if let Ok(text) = fs::read_to_string(path) {
            sources.push((name.to_owned(), text));
        }
    }
    assert!(sources.len() > 20, "the list of sources is too short to be true: {}", sources.len());
    sources
}

/// Fails with every place that breaks the rule.
fn forbid(rule: &str, broken_by: impl Fn(&str, &str) -> bool) {
    let mut places = Vec::new();
    for (name, text) in sources() {
        for (number, line) in (1..).zip(text.lines()) {
            if broken_by(&name, line) {
                places.push(format!("{name}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(places.is_empty(), "{rule}\n{}", places.join("\n"));
}

fn is_test(name: &str) -> bool {
    name.split('/').any(|part| matches!(part, "tests" | "test" | "benches" | "fuzz"))
        || name.ends_with("tests.rs")
}

fn is_code(name: &str) -> bool {
    [".rs", ".ts", ".js", ".mjs"].iter().any(|extension| name.ends_with(extension))
}

#[test]
fn no_source_file_is_longer_than_600_lines() {
    let long =
        |(name, text): &(String, String)| is_code(name) && !is_test(name) && text.lines().count() > MAX_LINES;
    let names: Vec<String> = sources().into_iter().filter(long).map(|(name, _)| name).collect();
    assert!(names.is_empty(), "split these files by noun, at most {MAX_LINES} lines each: {names:?}");
}

#[test]
fn no_tracked_text_names_a_path_of_somebodys_machine() {
    let folders: Vec<String> =
        ["work", "farm", "root", "home"].iter().map(|folder| format!("/{folder}/")).collect();
    forbid("write paths relative to the project", |_, line| {
        folders.iter().any(|folder| {
            line.match_indices(folder.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|c| !(c.is_alphanumeric() || "_.-~}".contains(c)))
            })
        })
    });
}

#[test]
fn the_project_speaks_only_of_itself() {
    // Each word is cut in two, so that this file does not break its own rule.
    let words = [
        ("clau", "de"),
        ("anthro", "pic"),
        ("chat", "gpt"),
        ("open", "ai"),
        ("co-authored", "-by"),
        ("generated", " by ai"),
        ("language ", "model"),
        ("ai ", "assistant"),
        ("shared/", "design"),
        ("shared/", "spec"),
    ]
    .map(|(a, b)| format!("{a}{b}"));
    forbid("say what the project does, not who wrote it or from what", |_, line| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word.as_str()))
    });
}

#[test]
fn nothing_is_left_unfinished_or_switched_off() {
    let marks = [
        ("TO", "DO"),
        ("FIX", "ME"),
        ("XX", "X"),
        ("#[ign", "ore"),
        (".sk", "ip("),
        (".on", "ly("),
        ("todo", "!("),
    ]
    .map(|(a, b)| format!("{a}{b}"));
    // Iterators have a method of the same name as a switched-off JavaScript test.
    let rust_skip = |name: &str, mark: &str| name.ends_with(".rs") && mark.starts_with(".sk");
    forbid("finish it, or take it out and write it down in the README", |name, line| {
        is_code(name) && marks.iter().any(|mark| !rust_skip(name, mark) && line.contains(mark.as_str()))
    });
}

#[test]
fn lines_have_no_trailing_blanks_and_no_tabs() {
    forbid("take out tabs and trailing blanks", |name, line| {
        is_code(name) && (line.contains('\t') || line.ends_with(' '))
    });
}

#[test]
fn every_file_of_a_crate_says_what_it_is() {
    let silent = |(name, text): &(String, String)| {
        name.ends_with(".rs") && name.contains("/src/") && !text.starts_with("//!") && !text.starts_with("#!")
    };
    let names: Vec<String> = sources().into_iter().filter(silent).map(|(name, _)| name).collect();
    assert!(names.is_empty(), "begin these files with a `//!` line: {names:?}");
}

#[test]
fn every_test_that_the_architecture_names_exists() {
    let sources = sources();
    let (_, text) = sources.iter().find(|(name, _)| name == "ARCHITECTURE.md").unwrap();
    let named: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("Tests: "))
        .flat_map(|tests| tests.split(", ").map(|test| test.trim_matches('`')))
        .collect();
    assert!(named.len() >= 10, "each invariant names its tests: {named:?}");
    let exists = |test: &str| {
        let forms = [format!("fn {test}("), format!("'{test}'"), format!("\"{test}\"")];
        // A scenario stands in a list, on a line of its own.
        let stands = |text: &str| {
            forms.iter().any(|form| text.contains(form)) || text.lines().any(|line| line.trim() == test)
        };
        sources.iter().any(|(name, text)| is_code(name) && stands(text))
    };
    let missing: Vec<&&str> = named.iter().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names tests that are not there: {missing:?}");
}

#[test]
fn the_client_depends_on_nothing_at_run_time() {
    let sources = sources();
    let (_, package) = sources.iter().find(|(name, _)| name == "clients/js/package.json").unwrap();
    let package: serde_json::Value = serde_json::from_str(package).unwrap();
    for kind in ["dependencies", "peerDependencies", "optionalDependencies", "bundledDependencies"] {
        assert!(package[kind].is_null(), "take the {kind} out of clients/js/package.json: {}", package[kind]);
    }
}
