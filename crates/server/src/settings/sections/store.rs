//! `store`

use std::path::PathBuf;
use std::str::FromStr;

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
}

/// A text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be memory: or sqlite:PATH, such as sqlite:lockhouse.db; a PATH that begins with \":\", \"file:\" or \"//\" is none"
)]
pub struct NoStore;

impl FromStr for StoreChoice {
    type Err = NoStore;

    fn from_str(text: &str) -> Result<Self, NoStore> {
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory { fresh: false }),
            Some(("sqlite", path)) if !path.is_empty() && !is_of_sqlite_alone(path) => {
                Ok(Self::Sqlite(path.into()))
            }
            _ => Err(NoStore),
        }
    }
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
            "postgres://x",
            "sqlite::memory:",
            "sqlite:file:x",
            "sqlite://x.db",
        ] {
            assert_eq!(text.parse::<StoreChoice>(), Err(NoStore), "{text}");
        }
    }
}
