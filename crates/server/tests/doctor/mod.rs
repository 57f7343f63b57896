//! `lockhouse doctor` before faults that are planted, each a real one: of the settings, the disk, the clock,
//! the ports, the database and the certificates.

mod fleet;
mod machine;
mod sqlite;
mod tls;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::running;

/// What doctor has found.
pub(crate) struct Found {
    code: Option<i32>,
    checks: Vec<Value>,
}

impl Found {
    /// Of this command, which prints JSON.
    pub(crate) fn by(command: &mut Command) -> Self {
        let (code, out, stderr) = running::run(command);
        let mut all: Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out:?} {stderr:?}"));
        let Value::Array(checks) = all["checks"].take() else { panic!("{all}") };
        let count = |grade: &str| checks.iter().filter(|check| check["grade"] == grade).count();
        assert_eq!(all["faults"], count("fault"));
        assert_eq!(all["warnings"], count("warning"));
        assert_eq!(code, Some(i32::from(count("fault") > 0)), "{checks:#?}");
        for check in &checks {
            assert_eq!(check["advice"].is_string(), check["grade"] != "ok", "{check}");
        }
        Self { code, checks }
    }

    /// In that folder, with options.
    pub(crate) fn of(folder: &Path, options: &[&str]) -> Self {
        Self::by(&mut doctor(folder, options))
    }

    fn lines(&self, grade: &str) -> Vec<String> {
        let of_grade = self.checks.iter().filter(|check| check["grade"] == grade);
        let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
        of_grade.map(|check| format!("{}: {}", text(check, "name"), text(check, "found"))).collect()
    }

    /// Has one fault, of that name, in which those words are.
    #[track_caller]
    pub(crate) fn has_fault(&self, name: &str, words: &str) {
        let faults = self.lines("fault");
        let [fault] = &*faults else { panic!("{name}: {faults:#?}") };
        assert!(fault.starts_with(&format!("{name}: ")) && fault.contains(words), "{fault}");
    }

    /// Has a warning of that name in which those words are, and no fault.
    #[track_caller]
    pub(crate) fn has_warning(&self, name: &str, words: &str) {
        assert_eq!(self.lines("fault"), [""; 0]);
        let warnings = self.lines("warning");
        let is_meant = |line: &String| line.starts_with(&format!("{name}: ")) && line.contains(words);
        assert!(warnings.iter().any(is_meant), "{warnings:#?}");
    }

    /// Has neither a fault nor a warning, but for those of the free space and the open files of this machine.
    #[track_caller]
    pub(crate) fn is_healthy(&self) {
        assert_eq!(self.code, Some(0));
        let mut wrong = [self.lines("fault"), self.lines("warning")].concat();
        wrong.retain(|line| !["disk space: ", "open files: "].iter().any(|name| line.starts_with(name)));
        assert_eq!(wrong, [""; 0]);
    }

    /// Has a check that is well, of that name, in which those words are.
    #[track_caller]
    pub(crate) fn says(&self, name: &str, words: &str) {
        let lines = self.lines("ok");
        let is_meant = |line: &String| line.starts_with(&format!("{name}: ")) && line.contains(words);
        assert!(lines.iter().any(is_meant), "{name}: {words}: {lines:#?}");
    }
}

/// The command in that folder. Another server may listen at the usual port.
pub(crate) fn doctor(folder: &Path, options: &[&str]) -> Command {
    let port: &[&str] = if options.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
    running::lockhouse(folder, &[&["doctor", "--json"], port, options].concat())
}
