//! The alert rules in `deploy`, checked and tested by Prometheus's own tool.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::rings::Run;
use crate::rings::results::TestRun;

const RULES: &str = "deploy/alerts.yml";
const TESTS: &str = "deploy/alerts.test.yml";

pub(crate) fn ring(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let read =
        |file: &str| fs::read_to_string(run.root.join(file)).with_context(|| format!("cannot read {file}"));
    let (rules, tests) = (read(RULES)?, read(TESTS)?);
    let promtool = |what: &[&str]| run.logged(Command::new("promtool").args(what));
    let checked = promtool(&["check", "rules", "--lint-fatal", RULES])?;
    let tested = promtool(&["test", "rules", TESTS])?;
    let test = |name: &str, passed| TestRun { suite: "alerts".to_owned(), name: name.to_owned(), passed };
    Ok(vec![
        test("the_rules_of_alerts_can_be_read", checked.is_success()),
        test("each_alert_fires_when_it_should_and_not_else", tested.is_success()),
        test("each_alert_has_a_test", untested(&rules, &tests).is_empty()),
    ])
}

/// The alerts without a test.
fn untested<'r>(rules: &'r str, tests: &str) -> Vec<&'r str> {
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.filter(|name| !tests.lines().any(|line| line.trim() == format!("alertname: {name}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_without_a_test_is_found() {
        let rules = "rules:\n  - alert: One\n  - alert: Two\n";
        assert_eq!(untested(rules, "  alertname: One\n  alertname: Twofold\n"), ["Two"]);
    }
}
