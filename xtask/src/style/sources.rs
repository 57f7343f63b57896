//! The files of the project, and which of them are code, tests and production.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A text file of the project.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path from the root, with slashes.
    pub name: String,
    /// The content.
    pub text: String,
}

impl SourceFile {
    /// A program in Rust, TypeScript or JavaScript.
    pub fn is_code(&self) -> bool {
        [".rs", ".ts", ".js", ".mjs"].iter().any(|extension| self.name.ends_with(extension))
    }

    /// A program in Rust.
    pub fn is_rust(&self) -> bool {
        self.name.ends_with(".rs")
    }

    /// A file that only tests, benchmarks or the fuzzer build.
    pub fn is_test(&self) -> bool {
        let is_folder_of_tests = |part| matches!(part, "tests" | "test" | "benches" | "fuzz");
        self.name.split('/').any(is_folder_of_tests) || self.name.ends_with("tests.rs")
    }

    /// The path below `src` of the crate in `folder`, if the file is one of its sources.
    pub fn below_src<'a>(&'a self, folder: &str) -> Option<&'a str> {
        self.name.strip_prefix(folder)?.strip_prefix("/src/")
    }
}

/// Text that git tracks or would track. Output of tools (lock files, what a build wrote) is left out.
///
/// # Errors
///
/// Git does not answer, or answers with hardly any file.
pub fn sources(root: &Path) -> Result<Vec<SourceFile>> {
    let args = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(args).current_dir(root).output()?;
    ensure!(output.status.success(), "git ls-files failed in {}", root.display());
    let is_generated = |name: &str| {
        name.contains("/dist/") || name.ends_with("package-lock.json") || name.ends_with("Cargo.lock")
    };
    let names = String::from_utf8(output.stdout).context("a path of the project is no text")?;
    let mut sources = Vec::new();
    for name in names.lines().filter(|name| !is_generated(name)) {
        if let Ok(text) = fs::read_to_string(root.join(name)) {
            sources.push(SourceFile { name: name.to_owned(), text });
        }
    }
    ensure!(sources.len() > 20, "the list of sources is too short to be true: {}", sources.len());
    Ok(sources)
}

/// The folders of the crates whose structure is judged: those of `crates`, the laboratory and these commands.
pub fn crate_folders(sources: &[SourceFile]) -> Vec<&str> {
    let folders = sources.iter().filter_map(|source| source.name.strip_suffix("/Cargo.toml"));
    let is_judged = |folder: &&str| {
        matches!(*folder, "lab" | "lab/proofs" | "xtask")
            || folder.strip_prefix("crates/").is_some_and(|name| !name.contains('/'))
    };
    folders.filter(is_judged).collect()
}
