//! Where a password comes from that the address does not have. It is read for each connection, so that a new
//! one is used once it is there; and it stands in no message.

use std::fs;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;

use super::address::{host_of, is_local};

/// Where a password comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PasswordSource {
    /// A file that has nothing else in it but the end of its line.
    File(PathBuf),
    /// A file as libpq has it in `PGPASSFILE`: a line for each server.
    PassFile(PathBuf),
}

impl PasswordSource {
    /// The password for that server. None if the file has none for it.
    pub(crate) fn read(&self, server: &Config) -> Result<Option<String>, Box<str>> {
        match self {
            Self::File(path) => {
                let text = text_of(path, "the password file")?;
                Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
            }
            Self::PassFile(path) => {
                check_mode(path)?;
                let text = text_of(path, "the file of passwords")?;
                Ok(text.lines().find_map(|line| password_of(line, server)))
            }
        }
    }
}

fn text_of(path: &Path, what: &str) -> Result<String, Box<str>> {
    fs::read_to_string(path)
        .map_err(|error| format!("{what} {} cannot be read: {error}", path.display()).into())
}

/// As libpq: a file that others may read is not used.
#[cfg(unix)]
fn check_mode(path: &Path) -> Result<(), Box<str>> {
    use std::os::unix::fs::PermissionsExt;
    let Ok(about) = fs::metadata(path) else { return Ok(()) };
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(format!("the file of passwords {path} has mode {mode:04o}, but must be for its owner alone (0600)")
        .into())
}

#[cfg(not(unix))]
fn check_mode(_: &Path) -> Result<(), Box<str>> {
    Ok(())
}

/// Where PostgreSQL has its socket, as built by its authors and by Debian.
const DEFAULT_DIRECTORIES: [&str; 2] = ["/tmp", "/var/run/postgresql"];

/// The password of a line `host:port:database:user:password`, if it is for that server.
fn password_of(line: &str, server: &Config) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let (host, port) = host_of(server);
    // As in libpq: the directories of sockets that servers have by default count as this host.
    let is_default = is_local(server) && DEFAULT_DIRECTORIES.contains(&host.as_str());
    let host = if is_default { "localhost".to_owned() } else { host };
    let user = server.get_user().unwrap_or_default();
    let wanted = [host.as_str(), &port.to_string(), server.get_dbname().unwrap_or(user), user];
    let mut rest = line;
    for wanted in wanted {
        let (field, after) = field(rest)?;
        let is_any = rest.starts_with("*:");
        if !is_any && field != wanted {
            return None;
        }
        rest = after;
    }
    Some(unescaped(rest))
}

/// The field before the next colon, and what is behind that. A backslash takes the next character as it is.
fn field(text: &str) -> Option<(String, &str)> {
    let mut is_escaped = false;
    let end = text.find(|each: char| {
        let ends = each == ':' && !is_escaped;
        is_escaped = each == '\\' && !is_escaped;
        ends
    })?;
    Some((unescaped(&text[..end]), &text[end + 1..]))
}

fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text.chars());
    while let Some(each) = rest.next() {
        plain.push(if each == '\\' { rest.next().unwrap_or(each) } else { each });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::connection::address::DatabaseAddress;

    fn server(address: &str) -> Config {
        DatabaseAddress::of(address).unwrap().servers.remove(0)
    }

    #[test]
    fn the_first_line_for_the_server_has_the_password() {
        let lines = "# host:5432:d:u:comment\n\
                     h:5432:d:other:no\n\
                     h:5433:d:u:no\n\
                     h:*:d:u:with \\\\ and \\: and: more\n\
                     *:*:*:u:any\n\
                     localhost:5432:*:sock:et\n\
                     /run/y:5432:*:sock:y\n\
                     incomplete:5432";
        let password = |address: &str| lines.lines().find_map(|line| password_of(line, &server(address)));
        for (address, expected) in [
            ("postgres://u@h/d", Some("with \\ and : and: more")),
            ("postgres://u@other/d", Some("any")),
            ("postgres://third@h/d", None),
            ("host=/var/run/postgresql user=sock", Some("et")),
            ("host=/run/x user=sock", None),
            ("host=/run/y user=sock", Some("y")),
            ("postgres://x@incomplete/d", None),
        ] {
            assert_eq!(password(address).as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn a_star_is_any_value_only_alone() {
        let line = "\\*:*:*:*:p";
        assert_eq!(password_of(line, &server("postgres://u@h/d")), None);
        assert_eq!(password_of(line, &server("host=* user=u")).as_deref(), Some("p"));
    }
}
