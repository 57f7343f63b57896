//! The beginning of a store: whether the server will do, and whether the tables are there.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::connection::LazyConnection;
use super::error::{PostgresOpenError, is_demoted, lasts, said};
use super::generation::Generation;
use super::schema;
use crate::SecretKey;

/// The oldest version that will do.
pub(crate) const OLDEST: i32 = 14;

/// How long it may take to make the tables, or to wait for another process that does.
const LIMIT: Duration = Duration::from_secs(60);

/// How long the steps wait for the lock of a table. Whatever wants that table meanwhile waits behind them:
/// the commits of nodes that run, which wait for a lock for half of their statement timeout.
const STEPS_WAIT: Duration = Duration::from_millis(100);

/// The first pause, and the longest one, before the steps are tried again.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Looks at the server, makes the tables or takes them to the present version, and learns the generation.
pub(crate) struct Setup<'a> {
    pub(crate) place: &'a str,
    pub(crate) schema: &'a str,
    pub(crate) slots: u16,
    pub(crate) key: &'a SecretKey,
    /// The server that the process has seen before, if any: one that this has replaced is refused.
    pub(crate) seen: Generation,
}

impl Setup<'_> {
    /// As [`run`](Self::run), with the first of the servers that no other one has replaced.
    pub(crate) async fn of_servers(
        &self,
        connection: &mut LazyConnection,
        limit: Duration,
    ) -> Result<(Generation, bool), PostgresOpenError> {
        let mut left = connection.servers();
        loop {
            left -= 1;
            let client = connection.client(limit).await.map_err(|none| none.when_opening(self.place))?;
            match self.run(client).await {
                Err(PostgresOpenError::Demoted { .. }) if left > 0 => connection.leave_server(),
                Err(error) => {
                    // It may be in the midst of a statement, or of a transaction.
                    connection.give_up();
                    return Err(error);
                }
                done => return done,
            }
        }
    }

    /// Also whether commits wait for a standby.
    async fn run(&self, client: &mut Client) -> Result<(Generation, bool), PostgresOpenError> {
        let work = async {
            let waits_for_standby = self.check_server(client).await?;
            self.migrate(client).await.unwrap_or_else(|error| Err(self.failed(&error)))?;
            let quoted = schema::quoted(self.schema);
            let row = Generation::ask(client, &quoted, LIMIT.as_millis() as i32 / 2, self.seen).await;
            let row = row.map_err(|error| self.failed(&error))?;
            let generation = Generation::of(&row).map_err(|why| self.away(why.into()))?;
            Ok((generation, waits_for_standby))
        };
        let late = |_| self.away(format!("no answer within {} s", LIMIT.as_secs()).into());
        timeout(LIMIT, work).await.map_err(late)?
    }

    async fn check_server(&self, client: &Client) -> Result<bool, PostgresOpenError> {
        let sql = "SELECT current_setting('server_version_num')::integer / 10000, current_setting('fsync'),
                       current_setting('default_transaction_isolation'),
                       current_setting('synchronous_standby_names') <> ''
                           AND current_setting('synchronous_commit') IN ('on', 'remote_apply', 'remote_write')";
        let rows = client.query_typed(sql, &[]).await.map_err(|error| self.failed(&error))?;
        let row = rows.first().ok_or_else(|| self.away("it does not say which version it is".into()))?;
        let get = |error: tokio_postgres::Error| self.failed(&error);
        let (found, fsync): (i32, &str) = (row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?);
        if found < OLDEST {
            return Err(PostgresOpenError::TooOld { place: self.place.into(), found, oldest: OLDEST });
        }
        let isolation: &str = row.try_get(2).map_err(get)?;
        if isolation != "read committed" {
            return Err(PostgresOpenError::Isolation { place: self.place.into(), found: isolation.into() });
        }
        if fsync == "off" {
            return Err(PostgresOpenError::NoSync { place: self.place.into() });
        }
        row.try_get(3).map_err(get)
    }

    /// As [`make_tables`](Self::make_tables). Says who has the tables if they cannot be locked.
    async fn migrate(
        &self,
        client: &mut Client,
    ) -> Result<Result<(), PostgresOpenError>, tokio_postgres::Error> {
        let error = match self.make_tables(client).await {
            Err(error) if is_of_lock(&error) => error,
            done => return done,
        };
        let sql = "SELECT string_agg(
                       format('%s (process %s)', coalesce(nullif(application_name, ''), backend_type, 'a client'), pid),
                       ', ' ORDER BY xact_start)
                   FROM pg_locks JOIN pg_stat_activity USING (pid)
                   WHERE relation = to_regclass($1 || '.history') AND datname = current_database() AND granted";
        let row = client.query_typed_one(sql, &[(&schema::quoted(self.schema), Type::TEXT)]).await?;
        let Some(users) = row.try_get::<_, Option<&str>>(0)? else { return Ok(Err(self.failed(&error))) };
        let version = schema::VERSION;
        let why = format!(
            "its tables have to be taken to version {version}, but are in use by {users}; start again when that has ended"
        );
        Ok(Err(self.away(why.into())))
    }

    /// All of it in one transaction, and one process at a time.
    async fn make_tables(
        &self,
        client: &mut Client,
    ) -> Result<Result<(), PostgresOpenError>, tokio_postgres::Error> {
        let until = Instant::now() + LIMIT / 2;
        let (quoted, known) = (schema::quoted(self.schema), schema::VERSION);
        let mut transaction = client.transaction().await?;
        let limit = format!("SET LOCAL lock_timeout = '{}s'", LIMIT.as_secs() / 2);
        transaction.batch_execute(&limit).await?;
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('lockhouse ' || $1, 0))";
        transaction.query_typed(lock, &[(&self.schema, Type::TEXT)]).await?;
        let look = "SELECT to_regnamespace($1) IS NOT NULL, to_regclass($1 || '.fleet') IS NOT NULL,
                        EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace($1))";
        let row = transaction.query_typed_one(look, &[(&quoted, Type::TEXT)]).await?;
        let (is_there, is_ours, is_used): (bool, bool, bool) = (row.get(0), row.get(1), row.get(2));
        if is_used && !is_ours {
            return Ok(Err(PostgresOpenError::NotOurs { place: self.place.into() }));
        }
        if !is_there {
            transaction.batch_execute(&format!("CREATE SCHEMA {quoted}")).await?;
        }
        if !is_ours {
            transaction.batch_execute(&schema::of(&quoted, schema::FLEET)).await?;
            let insert = format!("INSERT INTO {quoted}.fleet (version, slots, key) VALUES (0, $1, $2)");
            let (slots, key) = (i32::from(self.slots), self.key.as_bytes().as_slice());
            transaction.query_typed(&insert, &[(&slots, Type::INT4), (&key, Type::BYTEA)]).await?;
        }
        let row =
            transaction.query_typed_one(&format!("SELECT version, slots FROM {quoted}.fleet"), &[]).await?;
        let (found, slots): (i32, i32) = (row.get(0), row.get(1));
        if found > known {
            return Ok(Err(PostgresOpenError::Newer { place: self.place.into(), found, known }));
        }
        if slots != i32::from(self.slots) {
            let (place, found) = (self.place.into(), slots.unsigned_abs());
            return Ok(Err(PostgresOpenError::OtherSlots { place, found, asked: self.slots }));
        }
        if found < known {
            let steps = schema::STEPS.iter().skip(found.unsigned_abs() as usize).copied();
            let update = format!("UPDATE {{s}}.fleet SET version = {known};");
            let steps: String = steps.chain([&*update]).map(|step| schema::of(&quoted, step)).collect();
            take_steps(&mut transaction, &steps, until).await?;
        }
        transaction.commit().await?;
        Ok(Ok(()))
    }

    fn failed(&self, error: &tokio_postgres::Error) -> PostgresOpenError {
        failed(self.place, error)
    }

    fn away(&self, why: Box<str>) -> PostgresOpenError {
        PostgresOpenError::Away { place: self.place.into(), why }
    }
}

/// Takes the steps. While a table that they lock is in use, they are taken back, and tried again after a
/// pause in which no commit waits for them.
async fn take_steps(
    transaction: &mut Transaction<'_>,
    steps: &str,
    until: Instant,
) -> Result<(), tokio_postgres::Error> {
    let [mut pause, longest] = PAUSES;
    let steps = format!("SET LOCAL lock_timeout = '{}ms'; {steps}", STEPS_WAIT.as_millis());
    loop {
        let attempt = transaction.transaction().await?;
        match attempt.batch_execute(&steps).await {
            Ok(()) => return attempt.commit().await,
            Err(error) if is_of_lock(&error) && Instant::now() + pause < until => attempt.rollback().await?,
            Err(error) => return Err(error),
        }
        sleep(pause).await;
        pause = longest.min(pause * 2);
    }
}

/// Whether a lock was not to be had in time.
fn is_of_lock(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// The meaning of an error for a caller that opens the store at that place.
pub(crate) fn failed(place: &str, error: &tokio_postgres::Error) -> PostgresOpenError {
    let (place, why) = (place.into(), said(error));
    match error.code() {
        _ if is_demoted(error) => PostgresOpenError::Demoted { place, why },
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => PostgresOpenError::Rights { place, why },
        _ if lasts(error) => PostgresOpenError::Refused { place, why },
        _ => PostgresOpenError::Away { place, why },
    }
}
