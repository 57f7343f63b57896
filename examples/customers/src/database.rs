//! The application's own database. Every write under a lock passes the fence in the same transaction.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use lockhouse::OfflineLock;
use lockhouse::fence::{self, FenceError};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use crate::customer::{Customer, Order};

/// The customers. Cheap to clone; every clone is the same database.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    connection: Arc<Mutex<Connection>>,
}

/// Why the database did not do it. Nothing of the transaction remains.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("there is no customer {0}")]
    Missing(i64),
    /// The version is another than the one that was seen: another user has changed the customer.
    #[error("customer {id} has changed since version {seen}")]
    Changed { id: i64, seen: i64 },
    /// Another user has got the lock after us, and was here.
    #[error(transparent)]
    Stale(#[from] fence::Stale),
    #[error("{0}")]
    Failed(String),
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Database {
    /// Opens it; a new one gets some customers to play with.
    pub(crate) fn open(file: &Path) -> Result<Self, DatabaseError> {
        let mut connection = Connection::open(file)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        fence::sqlite::create_table(&tx)?;
        let version: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            0 => tx.execute_batch(include_str!("schema.sql"))?,
            SCHEMA => {}
            newer => {
                let why = format!("its schema is version {newer}, this program knows {SCHEMA} only");
                return Err(DatabaseError::Failed(why));
            }
        }
        tx.commit()?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    pub(crate) async fn all(&self) -> Result<Vec<Customer>, DatabaseError> {
        self.transaction(|tx| {
            let mut select = tx.prepare_cached(&format!("{SELECT} order by name, id"))?;
            let customers = select.query_map([], read)?.collect::<Result<_, _>>()?;
            Ok(customers)
        })
        .await
    }

    /// A customer; with a lock, it is read behind the fence: from then on no older token gets at it.
    pub(crate) async fn customer(
        &self,
        id: i64,
        lock: Option<OfflineLock>,
    ) -> Result<Customer, DatabaseError> {
        self.transaction(move |tx| {
            lock.map_or(Ok(()), |lock| pass(tx, &lock))?;
            find(tx, id)
        })
        .await
    }

    pub(crate) async fn orders(&self, customer: i64) -> Result<Vec<Order>, DatabaseError> {
        self.transaction(move |tx| {
            let mut select = tx.prepare_cached(
                "select placed, what, cents from orders where customer = ?1 order by placed desc, id desc",
            )?;
            let read =
                |row: &Row<'_>| Ok(Order { placed: row.get(0)?, what: row.get(1)?, cents: row.get(2)? });
            let orders = select.query_map([customer], read)?.collect::<Result<_, _>>()?;
            Ok(orders)
        })
        .await
    }

    /// Writes a customer that was read in `customer.version`, and returns it with the next.
    pub(crate) async fn update(
        &self,
        customer: Customer,
        lock: OfflineLock,
    ) -> Result<Customer, DatabaseError> {
        self.transaction(move |tx| {
            pass(tx, &lock)?;
            let Customer { id, version, name, street, city, phone, note } = &customer;
            let changed = tx.execute(
                "update customers set name = ?3, street = ?4, city = ?5, phone = ?6, note = ?7, version = version + 1
                 where id = ?1 and version = ?2",
                params![id, version, name, street, city, phone, note],
            )?;
            check(tx, changed, &customer)?;
            Ok(Customer { version: version + 1, ..customer })
        })
        .await
    }

    /// Gives the orders of one customer to another, and forgets the one.
    pub(crate) async fn merge(
        &self,
        kept: Customer,
        gone: Customer,
        locks: [OfflineLock; 2],
    ) -> Result<(), DatabaseError> {
        self.transaction(move |tx| {
            locks.iter().try_for_each(|lock| pass(tx, lock))?;
            tx.execute("update orders set customer = ?1 where customer = ?2", [kept.id, gone.id])?;
            let sql = "update customers set version = version + 1 where id = ?1 and version = ?2";
            check(tx, tx.execute(sql, [kept.id, kept.version])?, &kept)?;
            let sql = "delete from customers where id = ?1 and version = ?2";
            check(tx, tx.execute(sql, [gone.id, gone.version])?, &gone)
        })
        .await
    }

    async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let connection = self.connection.clone();
        let done = tokio::task::spawn_blocking(move || {
            // A panic in between has rolled its transaction back.
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = work(&tx)?;
            tx.commit()?;
            Ok(result)
        });
        done.await.unwrap_or_else(|error| Err(DatabaseError::Failed(error.to_string())))
    }
}

/// Shuts out all older tokens, or is shut out.
fn pass(tx: &Transaction<'_>, lock: &OfflineLock) -> Result<(), DatabaseError> {
    let resource = lock.name.as_name().as_wtf8();
    match fence::sqlite::pass(tx, resource, lock.token, lock.mode) {
        Ok(()) => Ok(()),
        Err(FenceError::Stale(stale)) => Err(stale.into()),
        Err(FenceError::Database(error)) => Err(error.into()),
    }
}

/// Refuses a change of no row: the customer is gone, or has changed.
fn check(tx: &Transaction<'_>, changed: usize, customer: &Customer) -> Result<(), DatabaseError> {
    if changed == 1 {
        return Ok(());
    }
    find(tx, customer.id)?;
    Err(DatabaseError::Changed { id: customer.id, seen: customer.version })
}

const SELECT: &str = "select id, version, name, street, city, phone, note from customers";

fn find(tx: &Transaction<'_>, id: i64) -> Result<Customer, DatabaseError> {
    let mut select = tx.prepare_cached(&format!("{SELECT} where id = ?1"))?;
    select.query_row([id], read).optional()?.ok_or(DatabaseError::Missing(id))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Customer> {
    Ok(Customer {
        id: row.get(0)?,
        version: row.get(1)?,
        name: row.get(2)?,
        street: row.get(3)?,
        city: row.get(4)?,
        phone: row.get(5)?,
        note: row.get(6)?,
    })
}

/// As `schema.sql` says it.
const SCHEMA: i64 = 1;
