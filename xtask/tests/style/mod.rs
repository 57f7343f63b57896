//! The rules of the house that a machine can check. Each failure says what to do.

mod circles;
mod comments;
mod folders;
mod functions;
mod glossary;
mod text;
mod types;
mod words;

use std::path::Path;
use std::sync::LazyLock;

use xtask::style::sources::{self, SourceFile};

/// Read once for all rules.
static SOURCES: LazyLock<Vec<SourceFile>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    sources::sources(root).unwrap()
});

fn sources() -> &'static [SourceFile] {
    &SOURCES
}

/// The file at the root that describes the structure of the whole.
fn architecture() -> &'static str {
    &sources().iter().find(|source| source.name == "ARCHITECTURE.md").unwrap().text
}

/// Fails with every place that breaks the rule.
fn forbid(rule: &str, places: &[String]) {
    assert!(places.is_empty(), "{rule}\n{}\n({} places)", places.join("\n"), places.len());
}

/// The lines of all sources that break a rule, with their places.
fn lines_where(is_broken: impl Fn(&SourceFile, &str) -> bool) -> Vec<String> {
    let mut places = Vec::new();
    for source in sources() {
        for (number, line) in (1..).zip(source.text.lines()) {
            if is_broken(source, line) {
                places.push(format!("{}:{number}: {}", source.name, line.trim()));
            }
        }
    }
    places
}
