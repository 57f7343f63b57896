//! Another process: the same test once more, in the other role, which a variable selects.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

const PART: &str = "LOCKHOUSE_STORE_TEST_PART";

/// The file that the other process works on; `None` in the test itself.
pub(crate) fn part() -> Option<PathBuf> {
    std::env::var_os(PART).map(PathBuf::from)
}

/// Reports a line from the other process to the test.
pub(crate) fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "told: {line}").unwrap();
    out.flush().unwrap();
}

/// The other process; killed at the latest when the test ends.
pub(crate) struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Runs the test `name` in another process, on this file.
    pub(crate) fn start(name: &str, file: impl AsRef<OsStr>) -> Self {
        Self::start_by("exec \"$0\" \"$@\"", name, file)
    }

    /// The same by a shell script, whose `"$0" "$@"` is the test.
    pub(crate) fn start_by(script: &str, name: &str, file: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--nocapture"]).env(PART, OsString::from(file.as_ref()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line from the process; `None` when the process has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A line that was cut off by a kill does not count.
            if let Some((_, reported)) = line.strip_suffix('\n').and_then(|line| line.split_once("told: ")) {
                return Some(reported.to_owned());
            }
        }
    }

    /// Kills the process, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the process ends by itself, and returns whether it succeeded.
    pub(crate) fn end(&mut self) -> bool {
        drop(self.child.stdin.take());
        while self.hear().is_some() {}
        self.child.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
