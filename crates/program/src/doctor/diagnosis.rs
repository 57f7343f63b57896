//! What was found, and how it is shown.

use lockhouse_cli::print::visible;
use serde_json::{Value, json};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    Ok,
    /// The server works, and may not for long, or promises less than it could.
    Warning,
    /// The server does not start, or loses what it should keep.
    Fault,
}

/// One check: what was found, and what to do.
#[derive(Debug)]
struct CheckResult {
    grade: Grade,
    name: &'static str,
    found: String,
    advice: Option<String>,
}

/// All checks, in their order.
#[derive(Debug, Default)]
pub(super) struct Diagnosis(Vec<CheckResult>);

impl Grade {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

impl Diagnosis {
    pub(super) fn ok(&mut self, name: &'static str, found: impl Into<String>) {
        self.0.push(CheckResult { grade: Grade::Ok, name, found: found.into(), advice: None });
    }

    pub(super) fn warn(&mut self, name: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.add(Grade::Warning, name, found, advice);
    }

    pub(super) fn fault(&mut self, name: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.add(Grade::Fault, name, found, advice);
    }

    pub(super) fn add(
        &mut self,
        grade: Grade,
        name: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.0.push(CheckResult { grade, name, found: found.into(), advice: Some(advice.into()) });
    }

    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Says that all is well where no check of that name has found anything else.
    pub(super) fn ok_unless_found(&mut self, name: &'static str, found: impl Into<String>) {
        if self.0.iter().all(|check| check.name != name) {
            self.ok(name, found);
        }
    }

    pub(super) fn count(&self, grade: Grade) -> usize {
        self.0.iter().filter(|check| check.grade == grade).count()
    }

    /// A line for each check, and one for all of them.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |check: &CheckResult| {
            let advice = check.advice.as_ref().map_or_else(String::new, |advice| format!(" -> {advice}"));
            // Some faults of the settings have several lines.
            visible(&format!("{:8} {:14} {}{advice}", check.grade.word(), check.name, check.found))
        };
        let counted = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let [warnings, faults] = [(Grade::Warning, "warning"), (Grade::Fault, "fault")]
            .map(|(grade, one)| counted(self.count(grade), one));
        let total = format!("{}, {warnings}, {faults}", counted(self.0.len(), "check"));
        self.0.iter().map(line).chain([total]).collect()
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let check = |check: &CheckResult| {
            json!({
                "grade": check.grade.word(),
                "name": check.name,
                "found": check.found,
                "advice": check.advice,
            })
        };
        json!({
            "checks": self.0.iter().map(check).collect::<Vec<_>>(),
            "warnings": self.count(Grade::Warning),
            "faults": self.count(Grade::Fault),
        })
    }
}
