//! `store`

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use lockhouse::store::{PostgresOpenError, PostgresStore};

use crate::settings::secret::without_passwords;

/// The choice of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// Nothing outlives the server.
    Memory {
        /// No former server has clients that still hold something, so that there is nothing to wait for.
        fresh: bool,
    },
    /// A database file, which is made if it is not there.
    Sqlite(PathBuf),
    /// A schema of PostgreSQL, which several servers share.
    Postgres(PostgresUrl),
}

/// The URL of a database, without a password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStore {
    /// It is of no kind that there is.
    #[error(
        "must be memory:, sqlite:PATH, such as sqlite:lockhouse.db, or postgres://USER@HOST/DATABASE; a PATH that begins with \":\", \"file:\" or \"//\" is none"
    )]
    Unknown,
    /// Others could read the password where the address stands.
    #[error(
        "must have no password in it: put it into a file for --store-password-file, or for PGPASSFILE as psql has it"
    )]
    HasPassword,
    /// It cannot be read.
    #[error("is {0}")]
    Address(PostgresOpenError),
}

impl FromStr for StoreChoice {
    type Err = NoStore;

    fn from_str(text: &str) -> Result<Self, NoStore> {
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory { fresh: false }),
            Some(("sqlite", path)) if !path.is_empty() && !is_of_sqlite_alone(path) => {
                Ok(Self::Sqlite(path.into()))
            }
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                if has_password(text) {
                    return Err(NoStore::HasPassword);
                }
                PostgresStore::check_address(text).map_err(NoStore::Address)?;
                Ok(Self::Postgres(PostgresUrl(text.to_owned())))
            }
            _ => Err(NoStore::Unknown),
        }
    }
}

/// Whether the URL has a password in it.
fn has_password(url: &str) -> bool {
    without_passwords(url) != url
}

/// Whether SQLite or other programs take that for something else than the file of that name: `:memory:`, a
/// URI, or the authority of a URL.
fn is_of_sqlite_alone(path: &str) -> bool {
    [":", "file:", "//"].iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_by_its_kind_and_its_place() {
        assert_eq!("memory:".parse(), Ok(StoreChoice::Memory { fresh: false }));
        assert_eq!("sqlite:a:b.db".parse(), Ok(StoreChoice::Sqlite("a:b.db".into())));
        for text in [
            "",
            "memory",
            "memory:x",
            "sqlite",
            "sqlite:",
            "lockhouse.db",
            "postgres:x",
            "sqlite::memory:",
            "sqlite:file:x",
            "sqlite://x.db",
        ] {
            assert_eq!(text.parse::<StoreChoice>(), Err(NoStore::Unknown), "{text}");
        }
        let url = "postgres://u@h1,h2/d?sslmode=require";
        assert_eq!(url.parse(), Ok(StoreChoice::Postgres(PostgresUrl(url.to_owned()))));
        for text in ["postgres://u:p@h/d", "postgresql://u@h/d?password=p", "postgres://u:p:q@h"] {
            assert_eq!(text.parse::<StoreChoice>(), Err(NoStore::HasPassword), "{text}");
        }
    }
}
