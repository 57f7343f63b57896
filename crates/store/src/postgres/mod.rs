//! A store in a schema of PostgreSQL.
//!
//! ```text
//!   open ───────▶ setup: the server looked at, the tables made
//!   take_slot ──▶ one statement ──▶ load: rows to RecoveredRow
//!   commit ─────▶ sections: CommitBatch to arrays ──▶ one statement for all slots
//! ```

mod commit;
mod connection;
mod error;
mod fleet;
mod generation;
mod history;
mod load;
mod look;
mod options;
#[cfg(feature = "sqlite")]
mod restore;
mod schema;
mod setup;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::select;
use parking_lot::Mutex as SyncMutex;
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Transaction};

pub use error::PostgresOpenError;
pub use fleet::PostgresFleet;
pub use look::{IndexesLook, PostgresLook, SchemaLook, TablesLook};
pub use options::PostgresOptions;
#[cfg(feature = "sqlite")]
pub use restore::{PostgresRestoreError, PostgresRestored};

use crate::values::bits;
use crate::{
    BackupError, CommitBatch, CommitOutcome, Fatal, HistoryError, HistoryPage, HistoryQuery, NodeId, Opened,
    RecoveredRow, SecretKey, Slot, Store, StoreFuture, StoreUnavailable, TakeError, WriterId,
};
use commit::Unsettled;
use connection::address::{DatabaseAddress, place_of};
use connection::password::PasswordSource;
use connection::{Connections, LazyConnection, Param, Servers, tls};
use error::Trouble;
use fleet::FleetStatements;
use generation::{Generation, Knowledge};
use history::keeper::HistoryKeeper;
use setup::Setup;

/// How long the next row of a load may take: the first comes once all are sorted.
const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// A store in a schema of PostgreSQL, which several processes may use at once, each for slots of its own.
///
/// Committed batches survive whatever the database survives: with `synchronous_commit` as it is by default
/// the loss of power of its machine, with a synchronous standby also the loss of the machine. The schema has
/// a key in it: no other account should have the right to read it.
///
/// Its calls need a tokio runtime with time and I/O.
///
/// Processes that share a schema join as nodes ([`join`](Self::join)): then only a slot that is free is
/// taken. A node adds to its counter with each commit and each [renewal](Self::renew); one whose counter
/// stands still for its slot lease ([`Stillness`](crate::Stillness)) is [declared dead](Self::bury), and
/// nothing that it sends is kept after that. A node that gets no confirmation for nine tenths of its slot
/// lease has to act as if it were dead.
///
/// Without nodes a take is unconditional: it ends the right of the former writer to write, but the former
/// writer learns of that at its next commit only. The caller has to know that the former writer has ended, or
/// grants nothing any more.
///
/// A database that has lost commits is a restored backup ([`Opened::restored`]): one whose timeline or system
/// identifier is another than before, as after the promotion of a standby, or in which less is kept than was
/// confirmed to this store. Each statement that writes looks for that first. The one that finds it frees all
/// slots, and raises tokens and epochs; after that every batch of before is [`CommitOutcome::Fenced`], and
/// every node has to join again. A server on an older timeline than another one that was seen is not used,
/// though it accepts writes. An account without the right to call `pg_control_system`, which every account
/// has by default, does without the system identifier: then a dump that was read back on another server is
/// found by no process that starts there. [`declare_restored`](Self::declare_restored) says so by hand.
///
/// An answer that does not come in time, or with a warning, is [`CommitOutcome::Unknown`], whatever the
/// server may have done. A batch that the schema has already is confirmed by a new transaction that writes,
/// so that a standby has it, too.
// The example needs the library, whose tests compile it.
#[cfg_attr(not(doctest), doc = "\n", doc = include_str!("embedded.md"))]
pub struct PostgresStore {
    place: Box<str>,
    limit: Duration,
    waits_for_standby: bool,
    history: Arc<HistoryKeeper>,
    connections: Arc<Connections>,
    closed: AtomicBool,
    sql: Statements,
    fleet: FleetStatements,
    /// The node that this process is in a fleet, if it has joined one.
    node: Option<NodeId>,
    known: SyncMutex<Knowledge>,
    unsettled: SyncMutex<HashMap<Slot, Unsettled>>,
}

/// The statements about the tables of this schema.
struct Statements {
    commit: String,
    take: String,
    epoch: String,
    history: String,
    marks: String,
    rows: String,
    /// Whether a slot is still that of an epoch and a writer.
    holds: String,
}

/// The servers at an address, and how the place of that schema in them is called.
fn servers_at(
    address: &str,
    schema: &str,
    limit: Duration,
    password: Option<PasswordSource>,
) -> Result<(Servers, Box<str>), PostgresOpenError> {
    let DatabaseAddress { servers: mut configs, security } = DatabaseAddress::of(address)?;
    // A file that cannot be used is a fault of the settings.
    tls::connector(&security)?;
    for config in &mut configs {
        config
            .application_name("lockhouse")
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .tcp_user_timeout(limit)
            .keepalives_idle(limit.max(Duration::from_secs(1)))
            .keepalives_interval(limit.max(Duration::from_secs(1)));
    }
    let place = place_of(&configs, schema).into();
    Ok((Servers { configs, security, password, looking: Arc::default() }, place))
}

impl PostgresStore {
    /// Whether an address can be read, as [`open`](Self::open) has it. Nothing is connected to.
    ///
    /// # Errors
    ///
    /// [`PostgresOpenError::Address`].
    pub fn check_address(address: &str) -> Result<(), PostgresOpenError> {
        DatabaseAddress::of(address).map(drop)
    }

    /// Opens the store at an address like `postgres://USER@HOST:PORT/DATABASE`, or `host=… user=…`, as in
    /// libpq. The tables are made where they are missing, or taken to the present version, in one
    /// transaction.
    ///
    /// Of several hosts (`postgres://USER@HOST,HOST/DATABASE`) the first that can be written is used, and
    /// after a failover the next one. A URL may have `sslmode` (`disable`, `prefer`, `require`, `verify-ca`,
    /// `verify-full`) and `sslrootcert` (a file, or `system`), with the meaning that they
    /// [have there](https://www.postgresql.org/docs/current/libpq-ssl.html), except that no file is looked
    /// for that is not named, that a certificate has to name its host as an alternative name, and that a
    /// server that offers TLS and fails at it is not asked without. The default is `prefer`, which is no
    /// protection from someone who can change what is sent: use `verify-full` over a network. Client
    /// certificates are not supported. The store sets time limits, `application_name` and
    /// `target_session_attrs` itself.
    ///
    /// # Errors
    ///
    /// [`PostgresOpenError`]; nothing was changed then, unless the last answer of the server was lost.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time and I/O enabled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn open(address: &str, options: PostgresOptions) -> Result<Self, PostgresOpenError> {
        options.check()?;
        let limit = options.statement_timeout;
        let (servers, place) = servers_at(address, &options.schema, limit, options.password.clone())?;
        let connections = Arc::new(Connections::new(&servers, place));
        Self::open_over(connections, options, Generation::default()).await
    }

    /// As [`open`](Self::open), over connections that are there, in a process that has seen a server before:
    /// one that this has replaced is left.
    async fn open_over(
        connections: Arc<Connections>,
        options: PostgresOptions,
        seen: Generation,
    ) -> Result<Self, PostgresOpenError> {
        let PostgresOptions { schema, slots, statement_timeout: limit, history, .. } = options;
        let place = connections.place.clone();
        let key = SecretKey::random().map_err(|error| PostgresOpenError::Away {
            place: place.clone(),
            why: error.to_string().into(),
        })?;
        let quoted = schema::quoted(&schema);
        let setup = Setup { place: &place, schema: &schema, slots, key: &key, seen };
        let mut looks = connections.looks.lock().await;
        let (generation, waits_for_standby) = setup.of_servers(&mut looks, limit.max(CONNECT_LIMIT)).await?;
        drop(looks);
        let (sql, fleet) = (Statements::of(&quoted), FleetStatements::of(&quoted));
        let history = HistoryKeeper::new(history, limit, &quoted, connections.clone()).into();
        Ok(Self {
            place,
            limit,
            history,
            waits_for_standby,
            connections,
            closed: false.into(),
            sql,
            fleet,
            node: None,
            known: SyncMutex::new(Knowledge::new(generation)),
            unsettled: SyncMutex::default(),
        })
    }

    /// Whether commits wait for a synchronous standby, as the server had it when the store was opened: then a
    /// failover to that standby loses none of them.
    pub fn waits_for_standby(&self) -> bool {
        self.waits_for_standby
    }

    fn check(&self) -> Result<(), Fatal> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Fatal::Closed { place: self.place.clone() });
        }
        Ok(())
    }

    /// How long a statement waits for the lock of a row, in milliseconds: less than the answer may take.
    fn lock_ms(&self) -> i32 {
        // An hour at most, as the options are checked.
        (self.limit.as_millis() / 2).max(1) as i32
    }

    async fn take(
        &self,
        slot: Slot,
        writer: WriterId,
        visit: &mut (dyn FnMut(RecoveredRow) + Send),
    ) -> Result<Opened, TakeError> {
        self.check()?;
        let [first, second] = &self.connections.loads;
        let mut connection = select(pin!(first.lock()), pin!(second.lock())).await.factor_first().0;
        let (lock_ms, number, own_writer) = (self.lock_ms(), i32::from(slot.get()), writer);
        let writer = bits(writer.0);
        let node = self.node.map(|node| bits(node.0));
        let seen = match node {
            Some(_) => Some(self.epoch_of(&mut connection, slot).await?),
            None => None,
        };
        let further: [Param<'_>; 4] =
            [(&number, Type::INT4), (&writer, Type::INT8), (&node, Type::INT8), (&seen, Type::INT8)];
        let known = self.known.lock().of_all();
        let params = known.params(&lock_ms, &further);
        let taken = connection.run(self.limit, &self.sql.take, &params).await;
        let rows = taken.map_err(|trouble| self.not_taken(trouble))?;
        let rows = rows.ok_or_else(|| self.away("the take was answered with a warning".into()))?;
        let row = rows.first().ok_or(TakeError::NoSuchSlot(slot))?;
        let timeline = load::get(row, "timeline").map_err(|why| self.damaged(why))?;
        self.known.lock().saw(timeline);
        match load::get(row, "verdict").map_err(|why| self.damaged(why))? {
            0 => {}
            1 => return Err(TakeError::NodeGone),
            2 => return Err(TakeError::OwnedElsewhere(slot)),
            4 => return Err(self.away("the slot was taken meanwhile".into())),
            _ => return Err(TakeError::IsOfFleet),
        }
        let opened = load::opened(row).map_err(|why| self.damaged(why))?;
        let generation = Generation::of(row).map_err(|why| self.damaged(why))?;
        self.known.lock().took(generation, slot, opened.epoch, own_writer);
        let loaded = self.load(&mut connection, slot, &opened, own_writer, visit).await;
        if loaded.is_err() {
            // It may be in the midst of rows.
            connection.give_up();
        }
        loaded.map(|()| opened)
    }

    /// The epoch of a slot, so that a take that comes late finds another one.
    async fn epoch_of(&self, connection: &mut LazyConnection, slot: Slot) -> Result<i64, TakeError> {
        let number = i32::from(slot.get());
        let rows = connection.run(self.limit, &self.sql.epoch, &[(&number, Type::INT4)]).await;
        let rows = rows.map_err(|trouble| self.not_taken(trouble))?;
        let rows = rows.ok_or_else(|| self.away("the answer came with a warning".into()))?;
        let row = rows.first().ok_or(TakeError::NoSuchSlot(slot))?;
        Ok(load::get(row, "epoch").map_err(|why| self.damaged(why))?)
    }

    /// Reads all that is kept of a slot that was taken. The transaction is for its settings, and writes
    /// nothing.
    async fn load(
        &self,
        connection: &mut LazyConnection,
        slot: Slot,
        opened: &Opened,
        writer: WriterId,
        visit: &mut (dyn FnMut(RecoveredRow) + Send),
    ) -> Result<(), TakeError> {
        let (slot, since) = (i32::from(slot.get()), bits(opened.tickets_since));
        let (epoch, writer) = (bits(opened.epoch), bits(writer.0));
        let client = connection.client(self.limit).await.map_err(|none| self.away(none.why))?;
        let failed = |error| self.not_taken(Trouble::of(&self.place, &error));
        let begin = async {
            let transaction = client.build_transaction().read_only(true).start().await?;
            transaction.batch_execute(schema::PLAN_OF_LOAD).await?;
            Ok(transaction)
        };
        let late = |_| self.away(format!("no answer within {} ms", self.limit.as_millis()).into());
        let transaction = timeout(self.limit, begin).await.map_err(late)?.map_err(failed)?;
        let of_slot: [Param<'_>; 2] = [(&slot, Type::INT4), (&since, Type::INT8)];
        self.read(&transaction, &self.sql.marks, &of_slot[..1], &mut |row| load::mark(row).map(&mut *visit))
            .await?;
        let mut reader = load::Reader::default();
        self.read(&transaction, &self.sql.rows, &of_slot, &mut |row| reader.read(row, visit)).await?;
        // What was read is of one life of the slot.
        let own: [Param<'_>; 3] = [(&slot, Type::INT4), (&epoch, Type::INT8), (&writer, Type::INT8)];
        let mut holds = false;
        let look = &mut |_: &Row| {
            holds = true;
            Ok(())
        };
        self.read(&transaction, &self.sql.holds, &own, look).await?;
        if holds { Ok(()) } else { Err(self.away("another writer took the slot meanwhile".into())) }
    }

    /// Reads all rows of a query.
    async fn read(
        &self,
        transaction: &Transaction<'_>,
        sql: &str,
        params: &[Param<'_>],
        read: &mut (dyn FnMut(&Row) -> Result<(), String> + Send),
    ) -> Result<(), TakeError> {
        let failed = |error| self.not_taken(Trouble::of(&self.place, &error));
        let late = |_| self.away(format!("no row within {} s", LOAD_LIMIT.as_secs()).into());
        let params = params.iter().map(|(value, kind)| (*value, kind.clone()));
        let rows = timeout(LOAD_LIMIT, transaction.query_typed_raw(sql, params));
        let mut rows = pin!(rows.await.map_err(late)?.map_err(failed)?);
        while let Some(row) = timeout(LOAD_LIMIT, rows.try_next()).await.map_err(late)?.map_err(failed)? {
            read(&row).map_err(|why| self.damaged(why))?;
        }
        Ok(())
    }

    fn not_taken(&self, trouble: Trouble) -> TakeError {
        match trouble {
            Trouble::Undone(why) => TakeError::Unavailable(why),
            Trouble::Unknown(why) => self.away(why),
            Trouble::Damaged(fatal) | Trouble::Fatal(fatal) => TakeError::Fatal(fatal),
        }
    }

    fn away(&self, why: Box<str>) -> TakeError {
        TakeError::Unavailable(StoreUnavailable::Away { place: self.place.clone(), why })
    }

    fn damaged(&self, why: String) -> Fatal {
        Fatal::Damaged { place: self.place.clone(), why: why.into() }
    }
}

/// How long the first connection may take at least.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

impl Store for PostgresStore {
    fn take_slot<'a>(
        &'a self,
        slot: Slot,
        writer: WriterId,
        visit: &'a mut (dyn FnMut(RecoveredRow) + Send),
    ) -> StoreFuture<'a, Result<Opened, TakeError>> {
        Box::pin(self.take(slot, writer, visit))
    }

    fn commit(&self, batches: Vec<Arc<CommitBatch>>) -> StoreFuture<'_, Result<Vec<CommitOutcome>, Fatal>> {
        Box::pin(async move { Ok(self.commit_fairly(batches).await?.0) })
    }

    fn history(&self, query: HistoryQuery) -> StoreFuture<'_, Result<HistoryPage, HistoryError>> {
        Box::pin(async move { self.page(&query).await })
    }

    fn backup(&self, _: PathBuf) -> StoreFuture<'_, Result<(), BackupError>> {
        let advice = "use those of the database, such as pg_basebackup";
        Box::pin(async move { Err(BackupError::Unsupported("a store in PostgreSQL", advice)) })
    }

    fn close(&self) -> StoreFuture<'_, Result<(), Fatal>> {
        Box::pin(async move {
            if self.closed.swap(true, Ordering::AcqRel) {
                return Err(Fatal::Closed { place: self.place.clone() });
            }
            self.connections.hang_up().await;
            Ok(())
        })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Statements {
    fn of(quoted: &str) -> Self {
        Self {
            commit: format!("SELECT outcome, expected, owned FROM {}", schema::call(quoted, "commit", 24)),
            take: format!("SELECT * FROM {}", schema::call(quoted, "take", 4)),
            epoch: format!("SELECT epoch FROM {quoted}.slots WHERE slot = $1"),
            history: history::statement(quoted),
            marks: schema::of(quoted, schema::MARKS),
            rows: schema::of(quoted, schema::ROWS),
            holds: format!("SELECT slot FROM {quoted}.slots WHERE slot = $1 AND epoch = $2 AND writer = $3"),
        }
    }
}
