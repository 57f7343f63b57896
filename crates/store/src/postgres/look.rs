//! A look at a server and its schema that changes nothing.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Transaction};

use super::connection::{Connections, LazyConnection};
use super::error::{is_of_pages, said};
use super::fleet::{FleetStatements, node_row};
use super::setup::{OLDEST, failed};
use super::{PostgresOpenError, PostgresOptions, PostgresStore, schema, servers_at};
use crate::NodeRow;

/// What a look at a server of PostgreSQL has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresLook {
    /// The place of the store, without a password.
    pub place: Box<str>,
    /// The major version of the server.
    pub version: i32,
    /// The settings `fsync`, `full_page_writes`, `synchronous_commit` and `default_transaction_isolation` as
    /// the account has them, each with its value.
    pub settings: Vec<(Box<str>, Box<str>)>,
    /// Whether a synchronous standby is named.
    pub has_synchronous_standby: bool,
    /// How many standbys and other receivers of the log are connected.
    pub standbys: i64,
    /// The server's clock, and this machine's in the middle between question and answer.
    pub clocks: (SystemTime, SystemTime),
    /// How long the answer took.
    pub took: Duration,
    /// How many connections this account may have in addition, as far as the server bounds them.
    pub connections_left: i32,
    /// Whether the account may make a schema.
    pub may_create_schema: bool,
    /// Who keeps old versions of rows alive for longest, and for how many transactions, as far as the account
    /// may see it.
    pub oldest_holder: Option<(Box<str>, i64)>,
    /// The schema, if it is there.
    pub schema: Option<SchemaLook>,
}

/// What a look at a schema has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SchemaLook {
    /// Whether the account may use the schema and make tables in it.
    pub may_use: bool,
    /// Its tables, if it has those of lockhouse and the account may use them.
    pub tables: Option<TablesLook>,
    /// Whether there is anything in the schema.
    pub is_used: bool,
}

/// What a look at the tables has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TablesLook {
    /// Their version.
    pub version: i32,
    /// The version that this program takes them to.
    pub known: i32,
    /// How many slots they were made with.
    pub slots: i32,
    /// The nodes of the fleet, by their labels.
    pub nodes: Vec<NodeRow>,
    /// The indexes of the schema, as `amcheck` found them.
    pub indexes: IndexesLook,
}

/// What a check of the indexes of a schema has found.
#[derive(Clone, Debug)]
pub enum IndexesLook {
    /// The database has no extension `amcheck`, or the account may not call it.
    NotChecked,
    /// There was no time for all of them.
    Unfinished,
    /// The damaged ones, each with what is wrong with it.
    Checked(Vec<(Box<str>, Box<str>)>),
}

impl PostgresLook {
    /// The oldest version of the server that will do.
    pub const OLDEST: i32 = OLDEST;

    /// How many connections a node of a fleet has at most at once: five for its work, and one that looks
    /// whether a statement that was given up has ended.
    pub const CONNECTIONS_OF_NODE: i32 = Connections::MOST;
}

impl PostgresStore {
    /// Looks at the server and the schema in a transaction that is read-only; nothing is made. For at most
    /// `limit` the server is waited for.
    ///
    /// # Errors
    ///
    /// [`PostgresOpenError`].
    ///
    /// # Panics
    ///
    /// As [`open`](Self::open).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn look_at(
        address: &str,
        options: PostgresOptions,
        limit: Duration,
    ) -> Result<PostgresLook, PostgresOpenError> {
        options.check()?;
        let PostgresOptions { schema, password, .. } = options;
        let (servers, place) = servers_at(address, &schema, limit, password)?;
        let away = |why: Box<str>| PostgresOpenError::Away { place: place.clone(), why };
        let looking = async {
            let mut connection = LazyConnection::new(servers, place.clone());
            let client = connection.client(limit).await.map_err(|none| none.when_opening(&place))?;
            let begun = Instant::now();
            let transaction = client.build_transaction().read_only(true).start().await;
            let mut transaction = transaction.map_err(|error| failed(&place, &error))?;
            let look = look(&transaction, &schema, &place).await;
            let mut look = look.map_err(|error| failed(&place, &error))?.map_err(|why| away(why.into()))?;
            if let Some(SchemaLook { tables: Some(tables), .. }) = &mut look.schema {
                // The rest of the look does not get lost with it.
                let left = limit.saturating_sub(begun.elapsed()) / 2;
                let checked = timeout(left, indexes(&mut transaction, &schema)).await;
                let checked = checked.unwrap_or(Ok(IndexesLook::Unfinished));
                tables.indexes = checked.map_err(|error| failed(&place, &error))?;
            }
            Ok(look)
        };
        match timeout(limit, looking).await {
            Ok(look) => look,
            Err(_) => Err(away(format!("no answer within {} ms", limit.as_millis()).into())),
        }
    }
}

const SERVER: &str = "
SELECT current_setting('server_version_num')::integer / 10000 AS version,
    current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('default_transaction_isolation') AS default_transaction_isolation,
    current_setting('synchronous_standby_names') <> '' AS has_synchronous_standby,
    (SELECT count(*) FROM pg_stat_replication) AS standbys,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS clock,
    least(
        CASE WHEN rolconnlimit < 0 OR rolsuper THEN 2147483647 ELSE rolconnlimit::bigint - own END,
        current_setting('max_connections')::bigint - everyone
            - CASE WHEN rolsuper THEN 0 ELSE current_setting('superuser_reserved_connections')::bigint END
    )::integer AS connections_left,
    has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
    to_regnamespace($1) IS NOT NULL AS is_there,
    coalesce(has_schema_privilege(to_regnamespace($1)::oid, 'USAGE')
        AND has_schema_privilege(to_regnamespace($1)::oid, 'CREATE'), false) AS may_use,
    EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace($1)) AS is_used,
    EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relname = 'fleet') AS is_ours
FROM pg_roles, (
    SELECT (SELECT sum(numbackends)::bigint FROM pg_stat_database) AS everyone, count(*) AS own
    FROM pg_stat_activity WHERE usename = current_user
) AS connections
WHERE rolname = current_user";

/// Those that keep versions of rows alive which were replaced since.
pub(super) const HOLDERS: &str = "
SELECT holder, age::bigint AS age FROM (
    SELECT format('process %s (%s)', pid, coalesce(nullif(application_name, ''), backend_type)) AS holder,
        age(backend_xmin) AS age
    FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND (datname = current_database() OR backend_type = 'walsender')
    UNION ALL SELECT format('the replication slot %I', slot_name), age(xmin) FROM pg_replication_slots
    UNION ALL SELECT format('the prepared transaction %L', gid), age(transaction) FROM pg_prepared_xacts
    WHERE database = current_database()
) AS holders
WHERE age IS NOT NULL ORDER BY age DESC LIMIT 1";

async fn look(
    transaction: &Transaction<'_>,
    schema: &str,
    place: &str,
) -> Result<Result<PostgresLook, String>, tokio_postgres::Error> {
    let quoted = schema::quoted(schema);
    let begun = (Instant::now(), SystemTime::now());
    let row = transaction.query_typed_one(SERVER, &[(&quoted, Type::TEXT)]).await?;
    let took = begun.0.elapsed();
    let names = ["fsync", "full_page_writes", "synchronous_commit", "default_transaction_isolation"];
    let setting = |name: &str| Ok((name.into(), row.try_get::<_, &str>(name)?.into()));
    let settings: Result<_, tokio_postgres::Error> = names.into_iter().map(setting).collect();
    let clock = UNIX_EPOCH + Duration::from_millis(row.try_get::<_, i64>("clock")?.unsigned_abs());
    let (is_there, may_use): (bool, bool) = (row.try_get("is_there")?, row.try_get("may_use")?);
    let tables = if may_use && row.try_get("is_ours")? {
        match tables(transaction, &quoted).await? {
            Ok(tables) => Some(tables),
            Err(why) => return Ok(Err(why)),
        }
    } else {
        None
    };
    let holder = transaction.query_typed(HOLDERS, &[]).await?;
    let holder = holder
        .first()
        .map(|row| Ok::<_, tokio_postgres::Error>((row.try_get::<_, &str>(0)?.into(), row.try_get(1)?)));
    Ok(Ok(PostgresLook {
        oldest_holder: holder.transpose()?,
        place: place.into(),
        version: row.try_get("version")?,
        settings: settings?,
        has_synchronous_standby: row.try_get("has_synchronous_standby")?,
        standbys: row.try_get("standbys")?,
        clocks: (clock, begun.1 + took / 2),
        took,
        connections_left: row.try_get("connections_left")?,
        may_create_schema: row.try_get("may_create_schema")?,
        schema: match is_there {
            true => Some(SchemaLook { may_use, tables, is_used: row.try_get("is_used")? }),
            false => None,
        },
    }))
}

async fn tables(
    transaction: &Transaction<'_>,
    quoted: &str,
) -> Result<Result<TablesLook, String>, tokio_postgres::Error> {
    let sql = format!("SELECT version, slots FROM {quoted}.fleet");
    let row: Row = transaction.query_typed_one(&sql, &[]).await?;
    let (version, slots) = (row.try_get(0)?, row.try_get(1)?);
    let known = schema::VERSION;
    // Tables of a later version may be others.
    let rows = match version {
        1.. if version <= known => transaction.query_typed(&FleetStatements::of(quoted).nodes, &[]).await?,
        _ => Vec::new(),
    };
    let nodes: Result<_, String> = rows.iter().map(node_row).collect();
    let indexes = IndexesLook::NotChecked;
    Ok(nodes.map(|nodes| TablesLook { version, known, slots, nodes, indexes }))
}

/// Has `amcheck` check all indexes, one by one.
async fn indexes(
    transaction: &mut Transaction<'_>,
    schema: &str,
) -> Result<IndexesLook, tokio_postgres::Error> {
    let sql = "SELECT CASE WHEN has_function_privilege(f.oid, 'EXECUTE') THEN f.oid::regproc::text END
               FROM pg_proc AS f WHERE proname = 'bt_index_check' AND pronargs = 1";
    let found = transaction.query_typed(sql, &[]).await?;
    let function = found.first().map(|row| row.try_get::<_, Option<&str>>(0)).transpose()?.flatten();
    let Some(function) = function else { return Ok(IndexesLook::NotChecked) };
    let sql = "SELECT indexrelid, relname FROM pg_index JOIN pg_class AS c ON c.oid = indexrelid
               WHERE relnamespace = to_regnamespace($1) AND indisvalid ORDER BY relname";
    let mut damaged = Vec::new();
    for row in transaction.query_typed(sql, &[(&schema::quoted(schema), Type::TEXT)]).await? {
        let (index, name): (u32, &str) = (row.try_get(0)?, row.try_get(1)?);
        let attempt = transaction.transaction().await?;
        let check = format!("SELECT {function}($1::oid)");
        match attempt.query_typed(&check, &[(&index, Type::OID)]).await {
            Ok(_) => attempt.commit().await?,
            Err(error) if error.code().is_some_and(is_of_pages) => {
                damaged.push((name.into(), said(&error)));
                attempt.rollback().await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(IndexesLook::Checked(damaged))
}
