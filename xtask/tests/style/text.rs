//! Rules of files and their lines.

use std::path::{Path, PathBuf};

use xtask::style::MAX_FILE_LINES;
use xtask::style::sources::SourceFile;

use super::{architecture, forbid, lines_where, sources};

#[test]
fn no_source_file_is_longer_than_600_lines() {
    let lines = |source: &SourceFile| source.text.lines().count();
    let is_long =
        |source: &&SourceFile| source.is_code() && !source.is_test() && lines(source) > MAX_FILE_LINES;
    let long: Vec<String> = sources()
        .iter()
        .filter(is_long)
        .map(|source| format!("{}: {} lines", source.name, lines(source)))
        .collect();
    forbid("split these files by noun, at most 600 lines each", &long);
}

#[test]
fn no_tracked_text_names_a_path_of_one_machine() {
    let folders: Vec<String> =
        ["work", "farm", "root", "home"].iter().map(|folder| format!("/{folder}/")).collect();
    let places = lines_where(|_, line| {
        folders.iter().any(|folder| {
            line.match_indices(folder.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|c| !(c.is_alphanumeric() || "_.-~}".contains(c)))
            })
        })
    });
    forbid("write paths relative to the project", &places);
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
    let places = lines_where(|_, line| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word.as_str()))
    });
    forbid("say what the project does, not who wrote it or from what", &places);
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
    let rust_skip = |source: &SourceFile, mark: &str| source.is_rust() && mark.starts_with(".sk");
    let places = lines_where(|source, line| {
        source.is_code() && marks.iter().any(|mark| !rust_skip(source, mark) && line.contains(mark.as_str()))
    });
    forbid("finish it, or take it out and write it down in the README", &places);
}

#[test]
fn lines_have_no_trailing_blanks_and_no_tabs() {
    let places = lines_where(|source, line| source.is_code() && (line.contains('\t') || line.ends_with(' ')));
    forbid("take out tabs and trailing blanks", &places);
}

#[test]
fn every_file_of_a_crate_says_what_it_is() {
    let is_silent = |source: &&SourceFile| {
        let says = source.text.starts_with("//!") || source.text.starts_with("#!");
        source.is_rust() && source.name.contains("/src/") && !says
    };
    let silent: Vec<String> = sources().iter().filter(is_silent).map(|source| source.name.clone()).collect();
    forbid("begin these files with a `//!` line", &silent);
}

#[test]
fn every_test_that_the_architecture_names_exists() {
    let named: Vec<&str> = architecture()
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
        sources().iter().any(|source| source.is_code() && stands(&source.text))
    };
    let missing: Vec<&&str> = named.iter().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names tests that are not there: {missing:?}");
}

#[test]
fn every_path_that_the_architecture_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders =
        ["bench/", "clients/", "crates/", "docs/", "examples/", "lab/", "protocol/", "tests/", "xtask/"];
    let is_path = |code: &&str| folders.iter().any(|folder| code.starts_with(folder)) && !code.contains(' ');
    let named: Vec<&str> = architecture().split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(named.len() >= 30, "the architecture says where things are: {named:?}");
    let missing: Vec<&&str> = named.iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names paths that are not there: {missing:?}");
}

#[test]
fn every_name_that_the_architecture_finds_in_a_file_occurs_there() {
    let table = architecture().split("\n## ").find(|part| part.starts_with("Where to find\n")).unwrap();
    let found: Vec<(PathBuf, &str)> = table.lines().flat_map(names_with_files).collect();
    assert!(found.len() >= 20, "the table says in which file each name is: {found:?}");
    let occurs = |(path, name): &(PathBuf, &str)| {
        let file = sources().iter().find(|source| Path::new(&source.name) == path);
        let has = |word| {
            file.is_some_and(|file| {
                file.text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
            })
        };
        name.split("::").all(has)
    };
    let missing: Vec<String> = found
        .iter()
        .filter(|place| !occurs(place))
        .map(|(path, name)| format!("{} has no `{name}`", path.display()))
        .collect();
    forbid("correct the name or the path in the table \"Where to find\" of ARCHITECTURE.md", &missing);
}

/// The names in a line with the files that they are in: `path`: `name`, or `name` in `path`.
fn names_with_files(line: &'static str) -> Vec<(PathBuf, &'static str)> {
    let is_path = |code: &str| code.ends_with(".rs") || code.ends_with(".ts");
    let is_name = |code: &str| code.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    // Every second part is a code span.
    let parts: Vec<&str> = line.split('`').collect();
    let (mut found, mut path, mut is_after_path) = (Vec::new(), PathBuf::new(), false);
    for at in (1..parts.len()).step_by(2) {
        let (before, code, after) = (parts[at - 1], parts[at], parts.get(at + 1).unwrap_or(&""));
        if is_path(code) {
            // A short path begins in the folder of the path before it, or in one above that.
            let exists = |path: &PathBuf| sources().iter().any(|source| Path::new(&source.name) == path);
            path = path.ancestors().map(|folder| folder.join(code)).find(exists).unwrap_or(code.into());
            is_after_path = *after == ": ";
            found.extend((before == " in " && is_name(parts[at - 2])).then(|| (path.clone(), parts[at - 2])));
        } else {
            is_after_path &= !before.contains(';');
            let is_here = is_after_path && *after != " in " || after.starts_with(" in the same file");
            found.extend((is_here && is_name(code)).then(|| (path.clone(), code)));
        }
    }
    found
}

#[test]
fn the_client_depends_on_nothing_at_run_time() {
    let package = sources().iter().find(|source| source.name == "clients/js/package.json").unwrap();
    let package: serde_json::Value = serde_json::from_str(&package.text).unwrap();
    for kind in ["dependencies", "peerDependencies", "optionalDependencies", "bundledDependencies"] {
        assert!(package[kind].is_null(), "take the {kind} out of clients/js/package.json: {}", package[kind]);
    }
}

#[test]
fn a_library_whose_tests_are_not_built_has_none() {
    let is_without = |manifest: &str| {
        let library = manifest.split_once("[lib]\n").map_or("", |(_, rest)| rest);
        let library = library.split("\n[").next().unwrap();
        library.contains("test = false") && !library.contains("path = ")
    };
    let manifests = sources().iter().filter(|source| source.name.ends_with("/Cargo.toml"));
    let folders: Vec<_> = manifests
        .filter(|manifest| is_without(&manifest.text))
        .filter_map(|manifest| manifest.name.strip_suffix("/Cargo.toml"))
        .collect();
    assert!(folders.contains(&"lab/proofs"), "{folders:?}");
    let places = lines_where(|source, line| {
        let is_attribute = ["#[test]", "#[tokio::test", "#[cfg(test)]", "#[cfg(all(test"]
            .iter()
            .any(|attribute| line.trim().starts_with(attribute));
        is_attribute && folders.iter().any(|folder| source.below_src(folder).is_some())
    });
    forbid("these tests never run: move them to the package's folder `tests`", &places);
}
