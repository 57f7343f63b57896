//! The traces that tests leave: the logs of the programs that they start, and the secrets that were made and
//! used meanwhile. No secret may stand in a log.
//!
//! ```text
//!   test ──command, listen──▶ FOLDER/*.log ─┐
//!     └──answer, secret─────▶ FOLDER/secrets ┴─▶ search: which log has which kind of secret, in which line
//! ```
//!
//! The listener to the servers of the test's own process is `tests/log-listener`.
//!
//! The variable [`FOLDER`] names the folder; `cargo xtask test` sets it, and searches the folder at its end.
//! Without the variable no traces are left.

mod kind;
mod search;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, id};
use std::sync::atomic::{AtomicU64, Ordering};

pub use kind::Kind;
pub use search::{Found, Leak, search};

/// The variable of the environment that names the folder.
pub const FOLDER: &str = "TEST_TRACES";

/// The file with the secrets, in the folder; all other files there are logs.
const SECRETS: &str = "secrets";

/// The log level with which a server logs all that it can.
pub const MOST_TALKATIVE: &str = "trace";

/// Where traces are left, if they are.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// A log for something that is about to be started, if traces are left.
///
/// # Panics
///
/// If it cannot be made.
pub fn log() -> Option<File> {
    Some(log_in(&folder()?))
}

/// A log in that folder for something that is about to be started.
///
/// # Panics
///
/// If it cannot be made.
pub fn log_in(folder: &Path) -> File {
    static LOGS: AtomicU64 = AtomicU64::new(0);
    let program = std::env::current_exe().ok();
    let program =
        program.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy().into_owned();
    let number = LOGS.fetch_add(1, Ordering::Relaxed);
    let file = folder.join(format!("{program}-{}-{number}.log", id()));
    File::options()
        .create(true)
        .append(true)
        .open(&file)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Has a server that is about to be started leave its log, if traces are left.
pub fn leave_log(command: &mut Command) {
    if let Some(log) = log() {
        command.env("RUST_LOG", MOST_TALKATIVE).stderr(Stdio::from(log));
    }
}

/// Leaves what a program said on stderr, if traces are left.
///
/// # Panics
///
/// If it cannot be written.
pub fn leave(said: &[u8]) {
    if let Some(mut log) = log().filter(|_| !said.is_empty()) {
        log.write_all(said).expect("a log");
    }
}

/// Takes note of a secret that was made or used, if traces are left.
///
/// # Panics
///
/// If it cannot be written.
pub fn secret(kind: Kind, secret: &str) {
    if let Some(folder) = folder() {
        note(&folder, &[(kind, secret)]);
    }
}

/// Takes note of all secrets in something that a server said: a frame, the body of an answer, what a command
/// printed.
///
/// # Panics
///
/// If they cannot be written.
pub fn answer(text: &str) {
    if let Some(folder) = folder() {
        answer_in(&folder, text);
    }
}

/// As [`answer`], in that folder.
///
/// # Panics
///
/// If they cannot be written.
pub fn answer_in(folder: &Path, text: &str) {
    note(folder, &kind::secrets_in(text));
}

/// As [`secret`], in that folder.
///
/// # Panics
///
/// If they cannot be written.
pub fn note(folder: &Path, secrets: &[(Kind, &str)]) {
    let lines: String = secrets
        .iter()
        .flat_map(|(kind, secret)| secret.lines().map(move |line| format!("{}\t{line}\n", kind.words())))
        .collect();
    if !lines.is_empty() {
        // In one piece, as others write at the same time.
        let file = File::options().create(true).append(true).open(folder.join(SECRETS));
        file.and_then(|mut file| file.write_all(lines.as_bytes())).expect("the file with the secrets");
    }
}

/// Makes an empty folder for traces there.
///
/// # Errors
///
/// Errors of the file system.
pub fn begin(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)
}
