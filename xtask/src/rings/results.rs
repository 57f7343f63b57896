//! The results of the rings: one JSON file per ring in `target/results`, stamped with the tree that was
//! tested.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::workspace::tree;

/// A test that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestRun {
    /// The suite of the test: `core`, `library`, `server`, `xtask`, `lab`, `doc`, `js`, `oracle`, …
    pub(crate) suite: String,
    pub(crate) name: String,
    pub(crate) passed: bool,
}

impl TestRun {
    /// Whether this stands for a whole file, of which no single test is known.
    pub(crate) fn is_file(&self) -> bool {
        Path::new(&self.name).is_absolute()
    }
}

/// A run of a ring.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RingResult {
    pub(crate) ring: String,
    /// The tree that was tested, as `tree::stamp` names it.
    pub(crate) tree: String,
    pub(crate) seconds: f64,
    pub(crate) tests: Vec<TestRun>,
    /// Why the ring failed as a whole, if it did.
    pub(crate) failure: Option<String>,
}

impl RingResult {
    pub(crate) fn passed(&self) -> usize {
        self.tests.iter().filter(|test| test.passed).count()
    }

    /// The number of failed tests; a ring that failed without a failed test counts as one.
    pub(crate) fn failed(&self) -> usize {
        let failed = self.tests.len() - self.passed();
        failed.max(usize::from(self.failure.is_some()))
    }

    pub(crate) fn save(&self, root: &Path) -> Result<()> {
        let file = tree::results_folder(root)?.join(format!("{}.json", self.ring));
        fs::write(&file, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// The result of `ring` for the tree `stamp`: none, if the ring last ran on another tree.
    pub(crate) fn load(root: &Path, ring: &str, stamp: &str) -> Result<Option<RingResult>> {
        let file = tree::results_folder(root)?.join(format!("{ring}.json"));
        let Ok(bytes) = fs::read(&file) else { return Ok(None) };
        let result: RingResult = serde_json::from_slice(&bytes)?;
        Ok((result.tree == stamp).then_some(result))
    }
}

/// Reads JUnit XML, as nextest and `node --test` write it. The name of a test is the path of its suites and
/// its own, joined by ` > `; `suite_of` turns the outermost suite's name into our suite and says whether it
/// belongs to that path.
pub(crate) fn read_junit(
    xml: &str,
    suite_of: impl Fn(&str) -> Option<String>,
    default: &str,
) -> Result<Vec<TestRun>> {
    // A failed test may quote the colours of a terminal, and XML has no way to write them.
    let xml: String = xml.chars().filter(|c| !c.is_control() || c.is_whitespace()).collect();
    let document = roxmltree::Document::parse(&xml).context("not JUnit XML")?;
    let cases =
        document.descendants().filter(|node| node.has_tag_name("testcase") && !was_not_asked_for(*node));
    Ok(cases.map(|case| read_case(case, &suite_of, default)).collect())
}

/// Node lists what its `--test-name-pattern` left out as skipped.
fn was_not_asked_for(case: roxmltree::Node<'_, '_>) -> bool {
    let skipped = case.children().find(|child| child.has_tag_name("skipped"));
    skipped
        .and_then(|skipped| skipped.attribute("message"))
        .is_some_and(|why| why.contains("does not match pattern"))
}

fn read_case(
    case: roxmltree::Node<'_, '_>,
    suite_of: impl Fn(&str) -> Option<String>,
    default: &str,
) -> TestRun {
    let suites = case.ancestors().filter(|node| node.has_tag_name("testsuite"));
    let mut path: Vec<&str> = suites.filter_map(|suite| suite.attribute("name")).collect();
    path.reverse();
    let known = path.first().and_then(|outermost| suite_of(outermost));
    if known.is_some() {
        path.remove(0);
    }
    path.extend(case.attribute("name"));
    // A skipped test shows nothing, so it counts as one that failed.
    let bad = ["failure", "error", "skipped"];
    let passed = !case.children().any(|child| bad.iter().any(|tag| child.has_tag_name(*tag)));
    TestRun { suite: known.unwrap_or_else(|| default.to_owned()), name: path.join(" > "), passed }
}

/// Reads JUnit XML of `node --test`. Node reports a file that ran no test, or died before it could, as one
/// test that bears the file's path; it never counts as passed.
pub(crate) fn read_node_junit(xml: &str) -> Result<Vec<TestRun>> {
    let mut tests = read_junit(xml, |_| None, "js")?;
    for test in tests.iter_mut().filter(|test| test.is_file()) {
        test.passed = false;
    }
    Ok(tests)
}

/// Reads what the built-in test harness prints, for doctests and for machines without nextest. `suite_of`
/// knows the suite of a test binary by its crate name.
pub(crate) fn read_harness(
    output: &str,
    suite_of: impl Fn(&str) -> Option<String>,
    default: &str,
) -> Vec<TestRun> {
    let mut suite = default.to_owned();
    let mut tests = Vec::new();
    for line in output.lines().map(str::trim) {
        if line.starts_with("Running ") {
            // `Running unittests src/lib.rs (target/checks/deps/lockhouse_core-0123456789abcdef)`
            let binary = line.rsplit('/').next().and_then(|file| file.split('-').next()).unwrap_or_default();
            suite = suite_of(binary).unwrap_or_else(|| default.to_owned());
        } else if let Some((name, outcome)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            tests.push(TestRun {
                suite: suite.clone(),
                name: name.to_owned(),
                passed: outcome.starts_with("ok"),
            });
        }
    }
    tests
}

/// The suite of a package or of a nextest binary (`lockhouse-server::proxy`): shorter, as
/// docs/requirements.md writes it.
pub(crate) fn suite_of_package(binary: &str) -> Option<String> {
    let suite = match binary.split("::").next()? {
        "lockhouse-core" => "core",
        "lockhouse-store" | "store-tests" => "store",
        "lockhouse" | "library-tests" => "library",
        "lockhouse-wire" => "wire",
        // The command line, and the program around both, are tested with the server.
        "lockhouse-server" | "lockhouse-cli" | "lockhouse-program" | "client-tests" => "server",
        "xtask" => "xtask",
        "lab" | "proofs" => "lab",
        "fuzz-targets" => "fuzz",
        "customers" | "seats" => "examples",
        _ => return None,
    };
    Some(suite.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(suite: &str, name: &str, passed: bool) -> TestRun {
        TestRun { suite: suite.into(), name: name.into(), passed }
    }

    #[test]
    fn junit_of_nextest_is_read_with_our_suite_names() {
        let xml = r#"<testsuites><testsuite name="lockhouse-core::scenarios">
            <testcase name="a::b" classname="x"/><testcase name="c"><failure message="no"/></testcase>
            </testsuite></testsuites>"#;
        let tests = read_junit(xml, suite_of_package, "rust").unwrap();
        assert_eq!(tests, [run("core", "a::b", true), run("core", "c", false)]);
    }

    #[test]
    fn junit_of_node_is_read_with_the_path_of_each_test() {
        let xml = r#"<testsuites><testcase name="top"/><testsuite name="window">
            <testcase name="WL-001 x"/><testcase name="y"><skipped/></testcase>
            <testcase name="z"><skipped message="test name does not match pattern"/></testcase></testsuite></testsuites>"#;
        let tests = read_junit(xml, |_| None, "js").unwrap();
        let expected =
            [run("js", "top", true), run("js", "window > WL-001 x", true), run("js", "window > y", false)];
        assert_eq!(tests, expected);
    }

    #[test]
    fn a_failed_test_that_quotes_colours_is_read() {
        let xml = "<testsuites><testcase name=\"t\"><failure>\u{1b}[2m late\u{1b}[22m</failure></testcase></testsuites>";
        assert_eq!(read_junit(xml, |_| None, "js").unwrap(), [run("js", "t", false)]);
    }

    #[test]
    fn a_file_that_ran_no_test_has_not_passed() {
        let tests = read_node_junit(r#"<testsuites><testcase name="/a/b.test.mjs"/></testsuites>"#).unwrap();
        assert_eq!(tests, [run("js", "/a/b.test.mjs", false)]);
    }

    #[test]
    fn the_harness_output_is_read_when_there_is_no_nextest() {
        let output = "     Running unittests src/lib.rs (target/checks/deps/lockhouse_core-00ff)\n\
            test names::empty ... ok\ntest names::nul ... FAILED\n   Doc-tests lockhouse\n";
        let suite_of = |name: &str| (name == "lockhouse_core").then(|| "core".to_owned());
        let tests = read_harness(output, suite_of, "doc");
        assert_eq!(tests, [run("core", "names::empty", true), run("core", "names::nul", false)]);
    }

    #[test]
    fn a_ring_that_dies_without_a_count_is_one_failure() {
        let dead = RingResult {
            ring: "js".into(),
            tree: "t".into(),
            seconds: 0.0,
            tests: vec![],
            failure: Some("exit 9".into()),
        };
        assert_eq!((dead.passed(), dead.failed()), (0, 1));
    }
}
