//! How a command ends.

use std::fmt::Display;
use std::io::Write;

use super::common::print::visible;

/// Something went wrong.
pub(super) const FAILURE: u8 = 1;

/// The command line or the configuration makes no sense.
pub(super) const USAGE: u8 = 2;

/// The server cannot be reached.
pub(super) const UNREACHABLE: u8 = 69;

/// It may have happened or not.
pub(super) const UNKNOWN: u8 = 74;

/// The lock was not granted.
pub(super) const NOT_GRANTED: u8 = 75;

/// The lock was lost.
pub(super) const LOST: u8 = 76;

/// Why a command did not do its work.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: u8,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(code: u8, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }
}

/// One line to stderr, or more if the message has more.
pub(super) fn complain(message: impl Display) {
    let message = message.to_string();
    let lines: Vec<String> = message.split('\n').map(visible).collect();
    // Without stderr there is no place to report to.
    _ = writeln!(std::io::stderr(), "lockhouse: {}", lines.join("\n"));
}
