//! The options of a store.

use std::path::PathBuf;
use std::time::Duration;

use super::connection::password::PasswordSource;
use super::error::PostgresOpenError;
use crate::HistoryBounds;

/// The most slots that a store may have.
const MOST_SLOTS: u16 = 4096;

/// The options of a [`PostgresStore`](super::PostgresStore).
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(crate) schema: String,
    pub(crate) slots: u16,
    pub(crate) statement_timeout: Duration,
    pub(crate) history: HistoryBounds,
    pub(crate) password: Option<PasswordSource>,
}

impl Default for PostgresOptions {
    /// The schema `lockhouse`, one slot, a second for a statement, and 100,000 rows and 30 days of history.
    fn default() -> Self {
        Self {
            schema: "lockhouse".into(),
            slots: 1,
            statement_timeout: Duration::from_secs(1),
            history: HistoryBounds::DEFAULT,
            password: None,
        }
    }
}

impl PostgresOptions {
    /// The schema whose tables are used. It is made where it is missing.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// How many slots there are, from 1 to 4096: fixed when the tables are made.
    #[must_use]
    pub fn slots(mut self, count: u16) -> Self {
        self.slots = count;
        self
    }

    /// How long a statement may take, from a millisecond to an hour, before its outcome counts as unknown. No
    /// statement waits longer for the lock of a row.
    #[must_use]
    pub fn statement_timeout(mut self, limit: Duration) -> Self {
        self.statement_timeout = limit;
        self
    }

    /// How much of the history is kept, of all slots together.
    #[must_use]
    pub fn history(mut self, bounds: HistoryBounds) -> Self {
        self.history = bounds;
        self
    }

    /// A file with the password, and nothing else but the end of its line, which is read for each connection.
    /// A password in the address counts more.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.password = Some(PasswordSource::File(path.into()));
        self
    }

    /// A file of passwords for several servers, as libpq has it in
    /// [`PGPASSFILE`](https://www.postgresql.org/docs/current/libpq-pgpass.html), in place of a
    /// [`password_file`](Self::password_file).
    #[must_use]
    pub fn passfile(mut self, path: impl Into<PathBuf>) -> Self {
        self.password = Some(PasswordSource::PassFile(path.into()));
        self
    }

    /// As [`passfile`](Self::passfile) with the file that the variable `PGPASSFILE` names, if it is set, as
    /// psql has it.
    #[must_use]
    pub fn passfile_of_environment(self) -> Self {
        match std::env::var_os("PGPASSFILE") {
            Some(path) => self.passfile(path),
            None => self,
        }
    }

    pub(crate) fn check(&self) -> Result<(), PostgresOpenError> {
        let wrong = |option, value: String, rule| {
            Err(PostgresOpenError::Option { option, value: value.into(), rule })
        };
        // More bytes would be cut off, which may make two names one.
        if self.schema.is_empty() || self.schema.len() > 63 || self.schema.contains('\0') {
            return wrong("schema", format!("{:?}", self.schema), "a name of 1 to 63 bytes without U+0000");
        }
        if self.schema.starts_with("pg_") || matches!(self.schema.as_str(), "information_schema" | "public") {
            return wrong("schema", format!("{:?}", self.schema), "a schema of its own");
        }
        if self.slots == 0 || self.slots > MOST_SLOTS {
            return wrong("slots", self.slots.to_string(), "from 1 to 4096");
        }
        let limit = self.statement_timeout;
        if limit < Duration::from_millis(1) || limit > Duration::from_secs(3600) {
            return wrong("statement_timeout", format!("{limit:?}"), "from 1 ms to 1 h");
        }
        Ok(())
    }
}
