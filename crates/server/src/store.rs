//! Where a server keeps what has to outlive it.

use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::future::pending;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use lockhouse::store::{MemoryStore, SqliteStore, Store};
use lockhouse::{House, StoreState};

use crate::config::Config;
use crate::limits::house_options;
use crate::session::random_hex;

/// Which store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// Nothing outlives the server.
    Memory {
        /// No server of before has clients that still hold something, so that there is nothing to wait for.
        fresh: bool,
    },
    /// A database file, which is made if it is not there.
    Sqlite(PathBuf),
}

/// What proves that somebody may read the database file: a secret in a file beside it, with the same mode.
pub(crate) struct Operator {
    pub(crate) secret: String,
    file: PathBuf,
}

impl Operator {
    /// Draws a secret and leaves it there.
    fn new(database: &Path) -> io::Result<Self> {
        let operator = Self { secret: random_hex::<20>(), file: operator_file(database) };
        // One of before may be left, of a server that was killed; the database is ours now.
        match fs::remove_file(&operator.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&operator.file)?;
        file.write_all(operator.secret.as_bytes())?;
        Ok(operator)
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It is of no use to anybody once the server is gone.
        _ = fs::remove_file(&self.file);
    }
}

/// Where the secret is that a backup through the running server needs.
pub fn operator_file(database: &Path) -> PathBuf {
    let mut file = database.as_os_str().to_owned();
    file.push(".operator");
    file.into()
}

/// A text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be memory: or sqlite:PATH, such as sqlite:lockhouse.db")]
pub struct NoStore;

/// Why a store cannot be used. Each message is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not the file.
    #[error(transparent)]
    Sqlite(#[from] lockhouse::store::OpenError),
    /// Not what is in it.
    #[error(transparent)]
    House(#[from] lockhouse::OpenError),
    /// Not the file for operators.
    #[error("{} cannot be written ({why}); make its folder writable", .file.display())]
    Operator {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    NoRandomness(String),
}

impl FromStr for StoreChoice {
    type Err = NoStore;

    fn from_str(text: &str) -> Result<Self, NoStore> {
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory { fresh: false }),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            _ => Err(NoStore),
        }
    }
}

impl StoreChoice {
    /// What operators of the store have to know; opened before.
    pub(crate) fn operator(&self) -> Result<Option<Operator>, StoreError> {
        let Self::Sqlite(path) = self else { return Ok(None) };
        let failed = |why| StoreError::Operator { file: operator_file(path), why };
        Operator::new(path).map(Some).map_err(failed)
    }

    /// The lock tables with what is kept.
    pub(crate) async fn open(&self, config: &Config) -> Result<House, StoreError> {
        let lease = std::time::Duration::from_millis(config.lease.as_millis());
        let options = house_options(&config.limits).lease(lease);
        let (store, options): (Arc<dyn Store>, _) = match self {
            Self::Memory { fresh: true } => return Ok(House::with_options(&options)),
            Self::Memory { fresh: false } => {
                let store =
                    MemoryStore::new().map_err(|error| StoreError::NoRandomness(error.to_string()))?;
                (Arc::new(store), options.always_recover(true).tickets(false))
            }
            Self::Sqlite(path) => (Arc::new(SqliteStore::open(path)?), options),
        };
        Ok(House::open(store, options).await?)
    }
}

/// Tells in the log when nothing can be kept, and when that is over. The end of the house is told by whoever serves it.
pub(crate) async fn tell_of_outages(house: &House) -> Infallible {
    loop {
        if let StoreState::Unavailable { why, .. } = house.unavailable().await {
            tracing::warn!(
                "nothing can be kept at the moment, and new offline locks and claims are refused: {why}"
            );
        }
        match house.serving().await {
            StoreState::Serving => tracing::info!("what has to be kept is kept again"),
            _ => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_by_its_kind_and_its_place() {
        assert_eq!("memory:".parse(), Ok(StoreChoice::Memory { fresh: false }));
        assert_eq!("sqlite:a:b.db".parse(), Ok(StoreChoice::Sqlite("a:b.db".into())));
        for text in ["", "memory", "memory:x", "sqlite", "sqlite:", "lockhouse.db", "postgres://x"] {
            assert_eq!(text.parse::<StoreChoice>(), Err(NoStore), "{text}");
        }
    }
}
