//! Joins one line of the checklist with the tests that ran.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::checklist::{Line, Named};
use crate::rings::results::TestRun;

/// The coverage of a line of the checklist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Coverage {
    Tested,
    Argued,
    Open,
}

/// A line of the checklist and what became of its tests.
#[derive(Debug, Serialize)]
pub(crate) struct Joined {
    pub(crate) id: String,
    pub(crate) words: String,
    pub(crate) state: Coverage,
    pub(crate) tests: Vec<Matched>,
    pub(crate) argument: Option<String>,
    /// Why it is open.
    pub(crate) problems: Vec<String>,
}

/// A named test and the full names of those that ran under it.
#[derive(Debug, Serialize)]
pub(crate) struct Matched {
    #[serde(flatten)]
    named: Named,
    ran: Vec<String>,
}

pub(crate) fn join(line: Line, tests: &[TestRun]) -> Joined {
    let mut problems = Vec::new();
    let mut matched = Vec::new();
    for named in line.tests {
        let ran: Vec<&TestRun> = tests.iter().filter(|test| is_meant(&named, test)).collect();
        if ran.is_empty() {
            problems.push(did_not_run(&named, tests));
        }
        problems.extend(
            ran.iter()
                .filter(|test| !test.passed)
                .map(|test| format!("{}: `{}` failed", test.suite, test.name)),
        );
        matched.push(Matched { named, ran: ran.iter().map(|test| test.name.clone()).collect() });
    }
    if matched.is_empty() && line.argument.is_none() {
        problems.push("neither a test nor an argument".to_owned());
    }
    // Where an argument is needed, the tests show what stands in the requirement's place, and not the
    // requirement.
    let state = match (problems.is_empty(), line.argument.is_some()) {
        (false, _) => Coverage::Open,
        (true, false) => Coverage::Tested,
        (true, true) => Coverage::Argued,
    };
    Joined { id: line.id, words: line.words, state, tests: matched, argument: line.argument, problems }
}

impl Joined {
    /// The JavaScript contexts in which this line was shown.
    pub(crate) fn realms(&self) -> BTreeSet<String> {
        let titles = self.tests.iter().filter(|test| test.named.suite == "js").flat_map(|test| &test.ran);
        titles.filter_map(|title| realm_of(title)).map(ToOwned::to_owned).collect()
    }
}

/// The tests of a context stand below `realm: window`, and each begins with `window: `.
fn realm_of(title: &str) -> Option<&str> {
    let (suites, test) = title.rsplit_once(" > ")?;
    let realm = suites.rsplit(" > ").next()?.strip_prefix("realm: ")?;
    test.strip_prefix(realm)?.starts_with(": ").then_some(realm)
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            Coverage::Tested => "tested",
            Coverage::Argued => "argued",
            Coverage::Open => "OPEN",
        };
        write!(f, "{} {state}", self.id)?;
        if self.problems.is_empty() {
            let count: usize = self.tests.iter().map(|test| test.ran.len()).sum();
            return if count > 0 { write!(f, " by {count}") } else { Ok(()) };
        }
        write!(f, ": {}", self.problems.join("; "))
    }
}

/// A Rust test is named by the end of its path. A JavaScript test is named by its title with or without those
/// around it, or by an ID, which means every test that bears it in its title, in whatever context it ran.
fn is_meant(named: &Named, test: &TestRun) -> bool {
    if named.suite != test.suite {
        return false;
    }
    let separator = if named.suite == "js" { " > " } else { "::" };
    let ends_with =
        test.name.strip_suffix(&named.name).is_some_and(|rest| rest.is_empty() || rest.ends_with(separator));
    let bears_id = named.suite == "js" && is_id(&named.name) && ids_in(&test.name).any(|id| id == named.name);
    // A doctest is named by its file; the line it stands on moves. Pages are included from a crate:
    // `crates/lockhouse/src/../../../docs/fence.md`.
    let file = test.name.split_once(" - ").map_or("", |(file, _)| file);
    let included = file.strip_suffix(&named.name).is_some_and(|way| way.ends_with("/../"));
    let in_file = named.suite == "doc" && (file == named.name || included);
    ends_with || bears_id || in_file
}

fn is_id(name: &str) -> bool {
    ids_in(name).any(|id| id == name)
}

fn ids_in(title: &str) -> impl Iterator<Item = &str> {
    title.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|word| {
        let (section, number) = word.split_once('-').unwrap_or_default();
        matches!(section, "WL" | "OL" | "CL") && number.len() == 3
    })
}

fn did_not_run(named: &Named, tests: &[TestRun]) -> String {
    let last = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
    let known = tests.iter().filter(|test| test.suite == named.suite).map(|test| (last(&test.name), test));
    let nearness = |name: &str| strsim::normalized_levenshtein(&named.name, name);
    let nearest = known.max_by(|(a, _), (b, _)| nearness(a).total_cmp(&nearness(b)));
    match nearest {
        Some((name, _)) => {
            format!("{}: `{}` did not run; the nearest that did is `{name}`", named.suite, named.name)
        }
        None => format!("{}: `{}` did not run, as nothing of {} did", named.suite, named.name, named.suite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(suite: &str, name: &str, passed: bool) -> TestRun {
        TestRun { suite: suite.into(), name: name.into(), passed }
    }

    fn line(tests: &[(&str, &str)], argument: Option<&str>) -> Line {
        let tests = tests.iter().map(|(suite, name)| Named { suite: (*suite).into(), name: (*name).into() });
        Line {
            id: "WL-057".into(),
            words: "w".into(),
            tests: tests.collect(),
            argument: argument.map(Into::into),
        }
    }

    #[test]
    fn a_line_is_tested_if_all_its_tests_ran_and_passed() {
        let tests = [ran("core", "queue::tests::head_only", true), ran("core", "other_head_only", false)];
        assert_eq!(join(line(&[("core", "head_only")], None), &tests).state, Coverage::Tested);
    }

    #[test]
    fn a_failed_test_a_missing_test_or_no_word_at_all_leaves_it_open() {
        let tests = [ran("core", "a", false), ran("core", "first_come_first_served", true)];
        let failed = join(line(&[("core", "a")], Some("reason")), &tests);
        assert_eq!((failed.state, failed.problems[0].as_str()), (Coverage::Open, "core: `a` failed"));
        let missing = join(line(&[("core", "first_come_first_serve")], None), &tests);
        assert!(missing.problems[0].ends_with("the nearest that did is `first_come_first_served`"));
        assert_eq!(join(line(&[], None), &tests).state, Coverage::Open);
        assert_eq!(join(line(&[], Some("reason")), &tests).state, Coverage::Argued);
        assert_eq!(
            join(line(&[("core", "first_come_first_served")], Some("reason")), &tests).state,
            Coverage::Argued
        );
    }

    #[test]
    fn a_doctest_is_named_by_its_file_wherever_that_is_included() {
        let tests = [
            ran("doc", "crates/lockhouse/src/kinds.rs - kinds::RecordKind (line 50)", true),
            ran("doc", "crates/lockhouse/src/../../../docs/fence.md - Fence (line 31)", true),
        ];
        let state = |file: &str| join(line(&[("doc", file)], None), &tests).state;
        assert_eq!(state("crates/lockhouse/src/kinds.rs"), Coverage::Tested);
        assert_eq!(state("docs/fence.md"), Coverage::Tested);
        assert_eq!((state("kinds.rs"), state("fence.md")), (Coverage::Open, Coverage::Open));
    }

    #[test]
    fn an_id_means_every_title_that_bears_it() {
        let mut tests = vec![
            ran("js", "realm: window > window: WL-057 x", true),
            ran("js", "node > WL-056 WL-057: y", true),
        ];
        let joined = join(line(&[("js", "WL-057")], None), &tests);
        assert_eq!((joined.state, joined.tests[0].ran.len()), (Coverage::Tested, 2));
        assert_eq!(joined.realms().into_iter().collect::<Vec<_>>(), ["window"]);
        tests.push(ran("js", "worker: WL-057 x", false));
        assert_eq!(join(line(&[("js", "WL-057")], None), &tests).state, Coverage::Open);
        assert_eq!(join(line(&[("js", "WL-05")], None), &tests).state, Coverage::Open);
    }
}
