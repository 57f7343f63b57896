//! The output of commands: JSON for programs, lines for people.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::cli::exit::{FAILURE, Failure};

/// Prints the answer itself as one line, or its lines for people.
pub(crate) fn print(
    json: bool,
    answer: &Value,
    lines: impl FnOnce() -> Vec<String>,
) -> Result<ExitCode, Failure> {
    let lines = if json { vec![answer.to_string()] } else { lines() };
    let mut out = io::stdout().lock();
    let written = lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The reader has read enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new(FAILURE, format_args!("cannot write: {error}"))),
    }
}

/// A member as people read it: control characters escaped, `-` if it is `null` or absent.
pub(crate) fn text(answer: &Value, key: &str) -> String {
    match &answer[key] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.escape_debug().collect(),
        value => value.to_string(),
    }
}

/// Some members on one line.
pub(crate) fn line(answer: &Value, keys: &[&str]) -> String {
    keys.iter().map(|key| text(answer, key)).collect::<Vec<_>>().join("  ")
}
