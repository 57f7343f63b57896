//! How a command ends.

use std::fmt::Display;
use std::io::Write;

use crate::common::print::visible;

/// Something went wrong.
pub const FAILURE: u8 = 1;

/// The command line or the configuration makes no sense.
pub const USAGE: u8 = 2;

/// The server cannot be reached.
pub(crate) const UNREACHABLE: u8 = 69;

/// It may have happened or not.
pub(crate) const UNKNOWN: u8 = 74;

/// The lock was not granted.
pub(crate) const NOT_GRANTED: u8 = 75;

/// The lock was lost.
pub(crate) const LOST: u8 = 76;

/// Why a command did not do its work.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// The message for stderr.
    pub message: String,
}

impl Failure {
    /// With that exit code and that message.
    pub fn new(code: u8, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }
}

/// One line to stderr, or more if the message has more.
pub fn complain(message: impl Display) {
    complain_to(&mut std::io::stderr(), message);
}

/// In one write, as the command of `run` writes to the same stderr: a line of it must not come in between.
fn complain_to(stderr: &mut impl Write, message: impl Display) {
    let message = message.to_string();
    let lines: Vec<String> = message.split('\n').map(visible).collect();
    // Without stderr there is no place to report to.
    _ = stderr.write_all(format!("lockhouse: {}\n", lines.join("\n")).as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io;

    use super::*;

    /// Has each write by itself.
    struct Writes(Vec<String>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_complaint_is_one_write() {
        let mut stderr = Writes(Vec::new());
        complain_to(&mut stderr, format_args!("lost the lock {:?}\nand\tmore", "n"));
        assert_eq!(stderr.0, ["lockhouse: lost the lock \"n\"\nand\\tmore\n"]);
    }
}
