//! `cargo xtask measure`: figures of the code, by the same readers as the lints.

use std::path::PathBuf;

use anyhow::Result;

use crate::Verdict;
use crate::style::circles;
use crate::style::comments;
use crate::style::functions::{functions, spread};
use crate::style::glossary;
use crate::style::imports::{Imports, production_files};
use crate::style::sources::{SourceFile, crate_folders, sources};
use crate::style::words::{self, Gone, Searched};
use crate::workspace::tree;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure this tree, a git repository, in place of the project
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// Count the lines with these words in names and comments, too
    #[arg(long, value_name = "WORDS")]
    word: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = args.root.clone().map_or_else(tree::root, Ok)?;
    let sources = sources(&root)?;
    println!(
        "{:<18} {:>5} {:>6} {:>8} {:>7} {:>9} {:>6} {:>4} {:>7} {:>8} {:>5}",
        "crate",
        "files",
        "circle",
        "product",
        "tests",
        "functions",
        "median",
        "p90",
        "longest",
        "comments",
        "wide"
    );
    for folder in crate_folders(&sources) {
        println!("{}", Row::measure(folder, &sources)?);
    }
    println!("{}", Scripts::measure(&sources));
    let bugs = sources.iter().filter(|s| s.name.starts_with("tests/mutants/") && s.name.ends_with(".patch"));
    println!("\nplanted bugs: {}", bugs.count());
    let architecture = sources.iter().find(|source| source.name == "ARCHITECTURE.md");
    let words = architecture.and_then(|source| glossary::words(&source.text)).unwrap_or_default();
    println!("words in the glossary: {}", words.len());
    for word in &args.word {
        println!("lines with \"{word}\": {}", lines_with(word, &sources));
    }
    Ok(true)
}

fn lines_with(word: &str, sources: &[SourceFile]) -> usize {
    // A few words of the command line, once.
    let words: &'static str = word.to_lowercase().leak();
    let gone = [Gone { words, searched: Searched::Everywhere, remedy: "" }];
    sources.iter().filter(|source| source.is_code()).map(|source| words::found(source, &gone).len()).sum()
}

/// The figures of a crate.
struct Row<'a> {
    folder: &'a str,
    /// Files of production code, the root included.
    files: usize,
    /// Files in the largest circle.
    circle: usize,
    /// Lines of production code.
    product: usize,
    /// Lines of tests, benchmarks and their helpers.
    tests: usize,
    functions: usize,
    /// Median, ninth decile and maximum of the lines of a function.
    spread: (usize, usize, usize),
    /// Lines of comments, those of tests included.
    comments: usize,
    /// The lines of comments that are too wide.
    wide: usize,
}

impl<'a> Row<'a> {
    fn measure(folder: &'a str, sources: &[SourceFile]) -> Result<Self> {
        let of_crate = |source: &&SourceFile| {
            source.is_rust() && source.name.strip_prefix(folder).is_some_and(|name| name.starts_with('/'))
        };
        let production = production_files(folder, sources)?;
        let lengths: Vec<usize> =
            production.values().flat_map(functions).map(|function| function.lines).collect();
        let (mut product, mut tests, mut comments, mut wide) = (0, 0, 0, 0);
        for source in sources.iter().filter(of_crate) {
            let lines = source.text.lines().count();
            match source.below_src(folder).and_then(|file| production.get(file)) {
                Some(file) => {
                    product += lines - file.test_lines;
                    tests += file.test_lines;
                }
                None => tests += lines,
            }
            comments += comments::lines(source);
            wide += comments::too_wide(source).len();
        }
        let circle = circles::largest(&Imports::read(folder, sources)?);
        let (files, functions, spread) = (production.len(), lengths.len(), spread(lengths));
        Ok(Self { folder, files, circle, product, tests, functions, spread, comments, wide })
    }
}

impl std::fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (median, p90, longest) = self.spread;
        write!(
            f,
            "{:<18} {:>5} {:>6} {:>8} {:>7} {:>9} {median:>6} {p90:>4} {longest:>7} {:>8} {:>5}",
            self.folder,
            self.files,
            self.circle,
            self.product,
            self.tests,
            self.functions,
            self.comments,
            self.wide
        )
    }
}

/// The figures of the sources in TypeScript and JavaScript.
struct Scripts {
    files: usize,
    product: usize,
    tests: usize,
    comments: usize,
    wide: usize,
}

impl Scripts {
    fn measure(sources: &[SourceFile]) -> Self {
        let scripts: Vec<&SourceFile> =
            sources.iter().filter(|source| source.is_code() && !source.is_rust()).collect();
        let lines = |is_test| {
            let of_kind = scripts.iter().filter(|source| source.is_test() == is_test);
            of_kind.map(|source| source.text.lines().count()).sum()
        };
        Self {
            files: scripts.iter().filter(|source| !source.is_test()).count(),
            product: lines(false),
            tests: lines(true),
            comments: scripts.iter().map(|source| comments::lines(source)).sum(),
            wide: scripts.iter().map(|source| comments::too_wide(source).len()).sum(),
        }
    }
}

impl std::fmt::Display for Scripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { files, product, tests, comments, wide } = self;
        write!(
            f,
            "{:<18} {files:>5} {:>6} {product:>8} {tests:>7} {:>29} {comments:>8} {wide:>5}",
            "TypeScript", "", ""
        )
    }
}
