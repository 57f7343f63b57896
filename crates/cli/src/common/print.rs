//! The output of commands: JSON for programs, lines for people.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tokio::io::Interest;
use tokio::net::unix::pipe;

use super::duration;
use crate::exit::{FAILURE, Failure};

/// Prints the answer itself as one line, or its lines for people.
///
/// # Errors
///
/// stdout cannot be written to, for another reason than that its reader has gone.
pub fn print(json: bool, answer: &Value, lines: impl FnOnce() -> Vec<String>) -> Result<ExitCode, Failure> {
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

/// What is said while a server still waits for holders from before its restart, for that time at most.
pub(crate) fn recovery(left: Duration) -> String {
    let left = duration::whole_seconds(left);
    format!(
        "the server has restarted, and waits up to {left} for holders from before: their locks may be missing"
    )
}

/// The failure of a command whose answer could not be written, with what became of what it had made.
pub(crate) fn take_back(failure: Failure, undone: Result<(), Failure>) -> Failure {
    let why = failure.message;
    match undone {
        Ok(()) => Failure::new(failure.code, format_args!("{why}; what was made is given back")),
        Err(error) => {
            let error = error.message;
            Failure::new(
                failure.code,
                format_args!("{why}; it stays until its TTL ends, as giving it back failed: {error}"),
            )
        }
    }
}

/// Waits until the pipe that stdout is has no reader. For ever, if it is none.
pub(crate) async fn reader_gone() {
    // Only its readiness is asked for: it goes on blocking when it is written to.
    let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked);
    let is_gone = match &stdout {
        Ok(stdout) => stdout.ready(Interest::ERROR).await.is_ok(),
        Err(_) => false,
    };
    if !is_gone {
        std::future::pending::<()>().await;
    }
}

/// A text as people read it: what a terminal would obey, or show in another order or not at all, is escaped.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // These would be escaped for a program's source only.
            '"' | '\'' | '\\' => shown.push(c),
            // Behind a letter an accent is no character of its own.
            _ => shown.extend(['a', c].iter().collect::<String>().escape_debug().skip(1)),
        }
    }
    shown
}

/// A member as people read it, `-` if it is `null` or absent.
pub fn text(answer: &Value, key: &str) -> String {
    match &answer[key] {
        Value::Null => "-".to_owned(),
        Value::String(text) => visible(text),
        value => value.to_string(),
    }
}

/// Some members on one line.
pub(crate) fn line(answer: &Value, keys: &[&str]) -> String {
    keys.iter().map(|key| text(answer, key)).collect::<Vec<_>>().join("  ")
}

/// Lines with aligned columns, below a line with their names.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Vec<String> {
    let lines: Vec<_> = std::iter::once(header.map(str::to_owned)).chain(rows).collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    let align = |line: &[String; N]| {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(align).collect()
}

/// A record of an answer as the commands take it, and its resource name where that is another text.
pub(crate) fn record(answer: &Value) -> String {
    let [kind, id, name] = ["kind", "id", "name"].map(|key| text(answer, key));
    if answer["kind"].as_str().is_none_or(str::is_empty) {
        return name;
    }
    let record = format!("{kind}/{id}");
    if record == name { record } else { format!("{record} (name {name})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_or_hide_is_escaped_and_nothing_else() {
        assert_eq!(visible("a \"b\" 'c' \\ e\u{301} \u{4e00}"), "a \"b\" 'c' \\ e\u{301} \u{4e00}");
        assert_eq!(visible("\u{202e}x\u{200b}\u{1b}\n"), "\\u{202e}x\\u{200b}\\u{1b}\\n");
    }
}
