//! The format of `docs/requirements.md`: pleasant to read, strict to parse.
//!
//! ```text
//! - **WL-035** Only the head of a queue can be granted, …
//!   which may go on in further lines.
//!   - Tests: core: `shared_waits_behind_exclusive`, `first_in_first_out`; js: `WL-035`
//!   - Argument: why it does not apply, and what stands in its place.
//! ```

use anyhow::{Result, anyhow, bail};
use serde::Serialize;

/// A line of the checklist. A line has tests, an argument, or (then it is open) neither.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) id: String,
    pub(crate) words: String,
    pub(crate) tests: Vec<Named>,
    pub(crate) argument: Option<String>,
}

/// A test as the checklist names it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Named {
    pub(crate) suite: String,
    pub(crate) name: String,
}

impl Named {
    /// The ring that runs the tests of this suite.
    pub(crate) fn ring(&self) -> &str {
        if RUST_SUITES.contains(&self.suite.as_str()) { "rust" } else { &self.suite }
    }
}

/// The suites of the Rust ring, one per package, with the sample applications as one; every other suite is a
/// ring of its own.
const RUST_SUITES: [&str; 9] =
    ["core", "store", "library", "wire", "server", "examples", "xtask", "lab", "fuzz"];
const OTHER_SUITES: [&str; 4] = ["doc", "js", "oracle", "model"];

/// Reads the whole checklist.
pub(crate) fn parse(text: &str) -> Result<Vec<Line>> {
    let mut items: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("- **") || line.starts_with("  - ") {
            items.push((number, line.to_owned()));
        } else if line.starts_with("  ") {
            let (_, item) = items
                .last_mut()
                .ok_or_else(|| anyhow!("line {number}: an indented line before any entry"))?;
            item.push(' ');
            item.push_str(line.trim());
        } else if line.starts_with('-') {
            bail!("line {number}: an entry begins with `- **WL-001** `");
        }
    }
    let mut lines = Vec::new();
    for (number, item) in &items {
        read_item(item, &mut lines).map_err(|error| anyhow!("line {number}: {error:#}"))?;
    }
    Ok(lines)
}

fn read_item(item: &str, lines: &mut Vec<Line>) -> Result<()> {
    if let Some(entry) = item.strip_prefix("- **") {
        let (id, words) =
            entry.split_once("** ").ok_or_else(|| anyhow!("an entry is `- **WL-001** words`"))?;
        if !is_id(id) || words.trim().is_empty() {
            bail!("`{id}` is no ID such as WL-001, or has no words");
        }
        lines.push(Line {
            id: id.to_owned(),
            words: words.trim().to_owned(),
            tests: Vec::new(),
            argument: None,
        });
        return Ok(());
    }
    let line = lines.last_mut().ok_or_else(|| anyhow!("no entry stands above"))?;
    let item = item.trim_start().trim_start_matches("- ");
    if let Some(tests) = item.strip_prefix("Tests:") {
        line.tests.extend(read_tests(tests)?);
    } else if let Some(argument) = item.strip_prefix("Argument:") {
        if line.argument.is_some() || argument.trim().is_empty() {
            bail!("{} has an empty or a second argument", line.id);
        }
        line.argument = Some(argument.trim().to_owned());
    } else {
        bail!("below an entry stand `Tests:` and `Argument:`, not `{item}`");
    }
    Ok(())
}

/// ``core: `a`, `b`; js: `c` ``
fn read_tests(list: &str) -> Result<Vec<Named>> {
    let mut tests = Vec::new();
    for group in split_outside_code(list, ';') {
        let (suite, names) =
            group.split_once(':').ok_or_else(|| anyhow!("`{}` lacks its suite", group.trim()))?;
        let suite = suite.trim();
        if !RUST_SUITES.contains(&suite) && !OTHER_SUITES.contains(&suite) {
            bail!(
                "`{suite}` is no suite; they are {} and {}",
                RUST_SUITES.join(", "),
                OTHER_SUITES.join(", ")
            );
        }
        for name in split_outside_code(names, ',') {
            let name = name.trim().trim_end_matches('.');
            let bare = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let bare = bare
                .filter(|bare| !bare.is_empty())
                .ok_or_else(|| anyhow!("a test name stands in `…`, not {name:?}"))?;
            tests.push(Named { suite: suite.to_owned(), name: bare.to_owned() });
        }
    }
    Ok(tests)
}

/// Splits at `separator`, except between backquotes: titles of tests may contain anything else.
fn split_outside_code(text: &str, separator: char) -> Vec<&str> {
    let mut in_code = false;
    let parts = text.split(|c: char| {
        in_code ^= c == '`';
        c == separator && !in_code
    });
    parts.collect()
}

fn is_id(id: &str) -> bool {
    let (section, number) = id.split_once('-').unwrap_or_default();
    matches!(section, "WL" | "OL" | "CL")
        && number.len() == 3
        && number.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(suite: &str, name: &str) -> Named {
        Named { suite: suite.into(), name: name.into() }
    }

    #[test]
    fn an_entry_has_words_tests_and_argument() {
        let text = "# Title\n\nProse.\n\n- **WL-001** Words that\n  go on.\n  - Tests: core: `a`,\n    `b`; js: `window: c; d, e`\n\
            - **WL-002** More.\n  - Argument: There is no\n    such thing.\n";
        let lines = parse(text).unwrap();
        assert_eq!(lines[0].words, "Words that go on.");
        assert_eq!(lines[0].tests, [named("core", "a"), named("core", "b"), named("js", "window: c; d, e")]);
        assert_eq!(lines[1].argument.as_deref(), Some("There is no such thing."));
    }

    #[test]
    fn an_unknown_line_is_refused_with_its_number() {
        let refused = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(refused("\n- WL-001 x").starts_with("line 2: an entry begins"));
        assert!(refused("- **WL-1** x").contains("no ID"));
        assert!(refused("- **WL-001** x\n  - Test: core: `a`").contains("not `Test:"));
        assert!(refused("- **WL-001** x\n  - Tests: kernel: `a`").contains("`kernel` is no suite"));
        assert!(refused("- **WL-001** x\n  - Tests: core: a").contains("stands in `…`"));
    }
}
