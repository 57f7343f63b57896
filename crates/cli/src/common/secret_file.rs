//! Secrets from files, which a list of processes does not show.

use std::fmt;
use std::io::{self, Read};

/// The content of a file, without the end of its line.
#[derive(Clone)]
pub struct SecretFile(String);

impl SecretFile {
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

/// Reads the file that is named on the command line; `-` stands for stdin.
///
/// # Errors
///
/// It cannot be read, or is empty; in words.
pub fn parse(file: &str) -> Result<SecretFile, String> {
    let read = match file {
        "-" => io::read_to_string(io::stdin().take(SECRET_BYTES)),
        _ => std::fs::File::open(file).and_then(|file| io::read_to_string(file.take(SECRET_BYTES))),
    };
    let text = read.map_err(|error| format!("it cannot be read: {error}"))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err("it is empty".to_owned()),
        secret => Ok(SecretFile(secret.to_owned())),
    }
}

/// No secret is longer, and so no more is read of a file that was named by mistake.
const SECRET_BYTES: u64 = 64 << 10;

impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretFile(…)")
    }
}
