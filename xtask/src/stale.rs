//! Results in `docs/evidence` that are older than the code they speak of.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::mutate::sha256;
use crate::workspace::tree;

/// The folder of the results.
const EVIDENCE: &str = "docs/evidence";

/// The sources on which each result depends, as git names paths. A result that is not named here depends on
/// all sources.
const DEPENDS_ON: &[(&str, &[&str])] = &[
    ("bench-cluster.json", &["crates/*/src/*", "bench/src/cluster", "bench/src/server"]),
    ("bench-inproc.json", &["crates/core/src", "crates/lockhouse/src", "bench/src/inproc"]),
    ("libraries.json", &["clients/js/src", "clients/js/test/libraries", "crates/*/src/*"]),
];

/// All sources of the product, of the client and of what judges them.
const SOURCES: &[&str] =
    &["crates/*/src/*", "clients/js/src", "lab/src", "lab/proofs/src", "bench/src", "bench/js"];

/// A file of results.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Filed {
    /// Of one run.
    Run(OfRun),
    /// Of `mutate`: one for each source.
    Sources(Vec<OfSource>),
    /// Arguments for `mutate`, which are of no tree.
    Arguments(#[expect(dead_code, reason = "told by its members")] Vec<Argument>),
    /// One for each planted bug or fuzz target.
    Runs(Vec<OfRun>),
}

/// The part that all results of runs have.
#[derive(Debug, Deserialize)]
struct OfRun {
    commit: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Argument {
    #[expect(dead_code, reason = "told by its members")]
    argument: String,
}

/// A result of `mutate`, which is of one source.
#[derive(Debug, Deserialize)]
struct OfSource {
    file: String,
    source: String,
}

/// A result that is older than the code it speaks of.
#[derive(Debug, PartialEq)]
pub(crate) struct StaleResult {
    file: String,
    why: Why,
}

#[derive(Debug, PartialEq)]
enum Why {
    /// The tree of the result had changes that are in no commit, or the commit is not known.
    UnknownTree,
    /// The commit of the result, and how many later ones have changed its sources.
    Behind { commit: String, commits: usize },
    /// A source that is another one now.
    OtherSource(String),
}

impl fmt::Display for StaleResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{EVIDENCE}/{}: ", self.file)?;
        match &self.why {
            Why::UnknownTree => write!(f, "of a tree that is no commit of this one"),
            Why::Behind { commit, commits } => {
                let commit = commit.get(..8).unwrap_or(commit);
                write!(f, "of {commit}; {commits} later commits have changed what it is about")
            }
            Why::OtherSource(source) => write!(f, "{source} has changed since"),
        }
    }
}

/// The results that are older than their sources, by their names.
pub(crate) fn stale(root: &Path) -> Result<Vec<StaleResult>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join(EVIDENCE)).with_context(|| format!("cannot read {EVIDENCE}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        files.extend(name.ends_with(".json").then_some(name));
    }
    files.sort();
    let mut stale = Vec::new();
    for file in files {
        let text = fs::read(root.join(EVIDENCE).join(&file))?;
        let why = match serde_json::from_slice(&text) {
            Ok(Filed::Run(result)) => older(root, &file, result.commit)?,
            Ok(Filed::Sources(results)) => other_source(root, &results),
            Ok(Filed::Runs(results)) => {
                let each = results.into_iter().map(|result| older(root, &file, result.commit));
                each.collect::<Result<Vec<_>>>()?.into_iter().flatten().next()
            }
            Ok(Filed::Arguments(_)) => None,
            Err(_) => Some(Why::UnknownTree),
        };
        stale.extend(why.map(|why| StaleResult { file, why }));
    }
    Ok(stale)
}

fn older(root: &Path, file: &str, commit: Option<String>) -> Result<Option<Why>> {
    let Some(commit) = commit.filter(|commit| tree::is_commit(root, commit)) else {
        return Ok(Some(Why::UnknownTree));
    };
    let paths = DEPENDS_ON.iter().find(|(name, _)| *name == file).map_or(SOURCES, |(_, paths)| paths);
    let commits = tree::commits_since(root, &commit, paths)?;
    Ok((commits > 0).then_some(Why::Behind { commit, commits }))
}

fn other_source(root: &Path, results: &[OfSource]) -> Option<Why> {
    let is_other = |result: &&OfSource| {
        let source = fs::read(root.join(&result.file)).unwrap_or_default();
        sha256(&source) != result.source
    };
    results.iter().find(is_other).map(|result| Why::OtherSource(result.file.clone()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A clone with one source, and a result of its first commit.
    struct Clone(tempfile::TempDir);

    impl Clone {
        fn new() -> Self {
            let clone = Self(tempfile::TempDir::new().unwrap());
            clone.git(&["init", "-q"]);
            clone.write("crates/a/src/lib.rs", "1");
            clone.write("README.md", "1");
            clone.commit();
            let commit = tree::head(clone.0.path()).unwrap();
            clone.write("docs/evidence/sim.json", &format!("{{\"commit\": \"{commit}\"}}"));
            clone.commit();
            clone
        }

        fn git(&self, args: &[&str]) {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
            let status = Command::new("git").args(identity).args(args).current_dir(self.0.path()).status();
            assert!(status.unwrap().success(), "{args:?}");
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn commit(&self) {
            self.git(&["add", "-A"]);
            self.git(&["commit", "-qm", "x"]);
        }

        fn stale(&self) -> Vec<String> {
            stale(self.0.path()).unwrap().iter().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn a_result_is_stale_once_a_later_commit_has_changed_its_sources() {
        let clone = Clone::new();
        clone.write("README.md", "2");
        clone.commit();
        assert_eq!(clone.stale(), [""; 0]);
        clone.write("crates/a/src/lib.rs", "2");
        assert_eq!(clone.stale(), [""; 0], "what is in no commit is for the next result to say");
        clone.commit();
        let [only] = &*clone.stale() else { panic!("{:?}", clone.stale()) };
        assert!(only.ends_with("; 1 later commits have changed what it is about"), "{only}");
    }

    #[test]
    fn a_result_of_a_tree_that_cannot_be_found_is_stale() {
        let clone = Clone::new();
        for commit in
            ["\"0123456789012345678901234567890123456789\"", "null", "\"HEAD, changed\"", "\"--all\""]
        {
            clone.write("docs/evidence/sim.json", &format!("{{\"commit\": {commit}}}"));
            let expected = "docs/evidence/sim.json: of a tree that is no commit of this one";
            assert_eq!(clone.stale(), [expected], "{commit}");
        }
    }

    #[test]
    fn lists_of_runs_are_looked_through_and_arguments_are_not() {
        let clone = Clone::new();
        clone.write("docs/evidence/survivors.json", "[{\"file\": \"x\", \"argument\": \"y\"}]");
        assert_eq!(clone.stale(), [""; 0]);
        for text in ["[{\"bug\": \"x\", \"commit\": \"0123456789012345678901234567890123456789\"}]", "[{"] {
            clone.write("docs/evidence/mutants.json", text);
            let expected = "docs/evidence/mutants.json: of a tree that is no commit of this one";
            assert_eq!(clone.stale(), [expected], "{text}");
        }
    }

    #[test]
    fn a_result_of_one_source_is_stale_once_that_is_another_one() {
        let clone = Clone::new();
        let hash = sha256(b"1");
        let result = |file: &str| format!("[{{\"file\": \"{file}\", \"source\": \"{hash}\"}}]");
        clone.write("docs/evidence/mutate.json", &result("crates/a/src/lib.rs"));
        assert_eq!(clone.stale(), [""; 0]);
        clone.write("crates/a/src/lib.rs", "2");
        assert_eq!(clone.stale(), ["docs/evidence/mutate.json: crates/a/src/lib.rs has changed since"]);
    }
}
