//! Circles of files that import each other.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::imports::Imports;

/// Files that all lead to each other by their imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle<'a> {
    /// The paths below `src`.
    pub files: BTreeSet<&'a str>,
}

impl Circle<'_> {
    /// The imports that close the circle, a line for each, with the place of the first of its kind.
    pub fn edges(&self, imports: &Imports) -> String {
        let mut edges = String::new();
        for file in &self.files {
            for (to, import) in imports.of(file).filter(|(to, _)| self.files.contains(to)) {
                // A String takes any text that is written to it.
                let _ = writeln!(edges, "  {file}:{} imports {to} by {}", import.line, import.path);
            }
        }
        edges
    }
}

/// All circles of two files and more, the largest first.
pub fn circles(imports: &Imports) -> Vec<Circle<'_>> {
    let mut left: BTreeSet<&str> = imports.files().collect();
    let mut circles = Vec::new();
    while let Some(&file) = left.first() {
        let there = reached(imports, file);
        let files: BTreeSet<&str> =
            there.into_iter().filter(|other| reached(imports, other).contains(file)).collect();
        left.remove(file);
        left.retain(|file| !files.contains(file));
        if files.len() > 1 {
            circles.push(Circle { files });
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    circles
}

/// The number of files in the largest circle; 0 without one.
pub fn largest(imports: &Imports) -> usize {
    circles(imports).first().map_or(0, |circle| circle.files.len())
}

/// The files that a file leads to by its imports and theirs.
fn reached<'a>(imports: &'a Imports, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = imports.of(file).map(|(to, _)| to).collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(imports.of(file).map(|(to, _)| to));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::sources::SourceFile;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let source = |(name, text): &(&str, &str)| SourceFile {
            name: format!("crates/c/src/{name}"),
            text: (*text).to_owned(),
        };
        let sources: Vec<SourceFile> = files.iter().map(source).collect();
        Imports::read("crates/c", &sources).unwrap()
    }

    #[test]
    fn a_circle_has_the_files_that_lead_to_each_other() {
        let imports = imports(&[
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::a::A;\nuse crate::d::D;"),
            ("d.rs", ""),
        ]);
        let circles = circles(&imports);
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].files, BTreeSet::from(["a.rs", "b.rs", "c.rs"]));
        assert_eq!(circles[0].edges(&imports).lines().next(), Some("  a.rs:1 imports b.rs by crate::b::B"));
        assert_eq!(largest(&imports), 3);
    }

    #[test]
    fn a_line_of_imports_is_no_circle() {
        assert_eq!(largest(&imports(&[("a.rs", "use crate::b::B;"), ("b.rs", "")])), 0);
    }
}
