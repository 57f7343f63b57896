//! The backup of a database file, brought into an empty schema: the way from one machine to a fleet.

mod tables;

use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use thiserror::Error;
use tokio::time::timeout;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::error::{PostgresOpenError, said};
use super::generation::Known;
use super::{CONNECT_LIMIT, PostgresOptions, PostgresStore, schema};
use crate::sqlite::{private_copy, said as said_by_sqlite};
use crate::values::{bits, number};
use crate::{HighestNumbers, RestoreError};

/// How long one statement may take: none is about more than a few thousand rows, or all slots.
const LIMIT: Duration = Duration::from_secs(60);

/// The result of a restore into a schema of PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresRestored {
    /// The place of the store.
    pub place: Box<str>,
    /// The numbers above which every slot goes on.
    pub above: HighestNumbers,
    /// How many rows were copied.
    pub rows: u64,
}

/// The reason why nothing was restored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostgresRestoreError {
    /// The backup is of no use.
    #[error(transparent)]
    Backup(#[from] RestoreError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] PostgresOpenError),
    /// There is state in the schema already, which a restore would mix with that of the backup.
    #[error("{place} is in use: {why}; name another schema or database")]
    NotEmpty {
        /// The place of the store.
        place: Box<str>,
        /// What was found.
        why: &'static str,
    },
    /// A statement failed. The tables are as empty as before.
    #[error("{place} could not be written ({why}); nothing was restored")]
    NotWritten {
        /// The place of the store.
        place: Box<str>,
        /// The message of the server.
        why: Box<str>,
    },
    /// All was written, and the answer to the last statement is lost.
    #[error(
        "it is unknown whether {place} has the backup ({why}); restore it again, which is refused if it has"
    )]
    Unknown {
        /// The place of the store.
        place: Box<str>,
        /// The message of the system.
        why: Box<str>,
    },
}

/// Why a step failed, before it is known where.
#[derive(Debug)]
enum Failed {
    Backup(Box<str>),
    Statement(Box<str>),
    NotEmpty(&'static str),
    Numbers(crate::NoNumberLeft),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Backup(said_by_sqlite(&error))
    }
}

impl PostgresStore {
    /// Brings the backup of a database file into the tables at an address ([`open`](Self::open)), which are
    /// made if they are missing, and in which no slot was ever taken. Each bucket comes into
    /// [its slot](crate::Slot::of). All of it is one transaction: a restore that is interrupted leaves the
    /// tables empty. `progress` gets, now and then, how many rows are copied, and how many there are.
    ///
    /// As the grants after the backup are unknown, every slot is as after the restore of a file
    /// ([`restore`](crate::restore)), and has the backup's key.
    ///
    /// # Errors
    ///
    /// [`PostgresRestoreError`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time and I/O enabled.
    ///
    /// # Cancel safety
    ///
    /// Nothing is restored if the future is dropped, unless all was sent by then.
    pub async fn restore(
        backup: impl AsRef<Path>,
        address: &str,
        options: PostgresOptions,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<PostgresRestored, PostgresRestoreError> {
        let path = backup.as_ref();
        let (copy, numbers) = private_copy(path)?;
        let (quoted, slots) = (schema::quoted(&options.schema), options.slots);
        let store = Self::open(address, options).await?;
        let place = store.place.clone();
        let not_written = |why| PostgresRestoreError::NotWritten { place: place.clone(), why };
        let failed = |failed| match failed {
            Failed::Backup(why) => RestoreError::Unusable { path: path.into(), why }.into(),
            Failed::Numbers(why) => RestoreError::NoNumberLeft { path: path.into(), why }.into(),
            Failed::NotEmpty(why) => PostgresRestoreError::NotEmpty { place: place.clone(), why },
            Failed::Statement(why) => not_written(why),
        };
        let known = store.known.lock().of_all();
        let mut connection = store.connections.loads[0].lock().await;
        let client = connection.client(CONNECT_LIMIT).await.map_err(|none| not_written(none.why))?;
        let transaction = client.transaction().await.map_err(|error| not_written(said(&error)))?;
        let restore = Restore { from: &copy, to: &transaction, schema: &quoted, slots };
        let work = restore.run(&known, numbers, &mut progress);
        let (above, rows) = work.await.map_err(failed)?;
        let unknown = |why| PostgresRestoreError::Unknown { place: place.clone(), why };
        limited(transaction.commit()).await.map_err(|error| match error {
            Failed::Statement(why) => unknown(why),
            other => failed(other),
        })?;
        Ok(PostgresRestored { place: place.clone(), above, rows })
    }
}

/// A restore under way.
struct Restore<'a> {
    from: &'a Connection,
    to: &'a Transaction<'a>,
    schema: &'a str,
    slots: u16,
}

impl Restore<'_> {
    async fn run(
        &self,
        known: &Known,
        numbers: HighestNumbers,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(HighestNumbers, u64), Failed> {
        let replaced = self.lock_empty(known).await?;
        let above = HighestNumbers::after_restore(numbers, Some(replaced), SystemTime::now());
        let above = above.map_err(Failed::Numbers)?;
        let (mut done, all) = (0, tables::count(self.from)?);
        let copied = &mut |rows| {
            done += rows;
            progress(done, all);
        };
        tables::copy(self.from, self.to, self.schema, self.slots, above, copied).await?;
        self.finish(above).await?;
        Ok((above, all))
    }

    /// Locks all that a take would have to lock, and says what no take has used yet.
    async fn lock_empty(&self, known: &Known) -> Result<HighestNumbers, Failed> {
        let (lock_ms, schema) = (LIMIT.as_millis() as i32 / 2, self.schema);
        let begin = format!("SELECT generation FROM {}", schema::call(schema, "learn", 1));
        limited(self.to.query_typed(&begin, &known.params(&lock_ms, &[(&false, Type::BOOL)]))).await?;
        for table in ["fleet", "nodes ORDER BY incarnation", "slots ORDER BY slot"] {
            let lock = format!("SELECT FROM {schema}.{table} FOR UPDATE");
            limited(self.to.query_typed(&lock, &[])).await?;
        }
        let look = format!(
            "SELECT bool_or(writer <> 0), EXISTS (SELECT FROM {schema}.buckets), max(token_floor), max(epoch),
                 max(greatest(longest_lease_ms, longest_lease_before_ms))
             FROM {schema}.slots"
        );
        let row = limited(self.to.query_typed_one(&look, &[])).await?;
        let get = |error: tokio_postgres::Error| Failed::Statement(said(&error));
        if row.try_get(0).map_err(get)? {
            return Err(Failed::NotEmpty("slots of it were taken"));
        }
        if row.try_get(1).map_err(get)? {
            return Err(Failed::NotEmpty("it has buckets"));
        }
        let [mark, epoch, longest_lease_ms] = [row.try_get(2), row.try_get(3), row.try_get(4)];
        Ok(HighestNumbers {
            mark: number(mark.map_err(get)?),
            epoch: number(epoch.map_err(get)?),
            longest_lease_ms: number(longest_lease_ms.map_err(get)?),
        })
    }

    /// The rest of a restore: what is of all slots. Their floor is as high for all buckets, so that the marks
    /// of tenants and of groups are not needed any more.
    async fn finish(&self, above: HighestNumbers) -> Result<(), Failed> {
        let schema = self.schema;
        let of_file = "SELECT key, tickets_since FROM secret, slots";
        let (key, tickets_since): (Vec<u8>, i64) =
            self.from.query_row(of_file, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let set_key = format!("UPDATE {schema}.fleet SET key = $1");
        limited(self.to.query_typed(&set_key, &[(&key, Type::BYTEA)])).await?;
        let slots = format!(
            "UPDATE {schema}.slots
             SET epoch = $1, token_floor = $2, longest_lease_before_ms = $3, tickets_since = $4, clean = false,
                 restored = true, held = NULL"
        );
        let numbers = [above.epoch, above.mark, above.longest_lease_ms].map(bits);
        let params = [&numbers[0], &numbers[1], &numbers[2], &tickets_since].map(|it| (it as _, Type::INT8));
        limited(self.to.query_typed(&slots, &params)).await?;
        for (table, column, rows) in
            [("buckets", "id", "true"), ("history", "seq", "true"), ("history", "nth", "why <> 'refused'")]
        {
            let next = format!(
                "SELECT setval(pg_get_serial_sequence($1, $2), coalesce(max({column}), 0) + 1, false)
                 FROM {schema}.{table} WHERE {rows}"
            );
            let table = format!("{schema}.{table}");
            let params = [(&table as _, Type::TEXT), (&column as _, Type::TEXT)];
            limited(self.to.query_typed(&next, &params)).await?;
        }
        let next = format!(
            "SELECT setval($1::text::regclass, coalesce(max(nth), 0) + 1, false)
             FROM {schema}.history WHERE why = 'refused'"
        );
        let refusals = format!("{schema}.history_refusals");
        limited(self.to.query_typed(&next, &[(&refusals as _, Type::TEXT)])).await?;
        Ok(())
    }
}

async fn limited<T>(statement: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Failed> {
    match timeout(LIMIT, statement).await {
        Ok(done) => done.map_err(|error| Failed::Statement(said(&error))),
        Err(_) => Err(Failed::Statement(format!("no answer within {} s", LIMIT.as_secs()).into())),
    }
}
