//! The fence as a table in SQLite (3.35 or newer).
//!
#![cfg_attr(feature = "fence-sqlite", doc = "```")]
#![cfg_attr(not(feature = "fence-sqlite"), doc = "```text")]
//! use lockhouse::{FencingToken, Mode, fence};
//! use rusqlite::{Connection, TransactionBehavior};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut db = Connection::open_in_memory()?;
//! fence::sqlite::create_table(&db)?;
//! db.execute_batch("create table stock (item text primary key, count integer not null)")?;
//! db.execute_batch("insert into stock values ('chair', 5)")?;
//! let token = FencingToken::new(17); // lock.fencing_token()
//!
//! // The critical section begins: from here on no older token passes.
//! let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! fence::sqlite::pass(&tx, b"stock/chair", token, Mode::Exclusive)?;
//! let count: i64 = tx.query_row("select count from stock where item = 'chair'", [], |row| row.get(0))?;
//! tx.commit()?;
//!
//! // Slow work, during which the lock may be lost. The write passes the fence again, or does not happen.
//! let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! fence::sqlite::pass(&tx, b"stock/chair", token, Mode::Exclusive)?;
//! tx.execute("update stock set count = ?1 where item = 'chair'", [count - 1])?;
//! tx.commit()?;
//! # Ok(())
//! # }
//! ```

/// Makes the table, if it is not there.
pub const TABLE: &str = "\
create table if not exists lockhouse_fence (
    resource blob primary key,
    highest integer not null,
    highest_exclusive integer not null
) without rowid";

/// Passes the fence: one row if it did, none if the token is stale. Run it inside the transaction that it
/// guards.
///
/// ?1 is the resource as a blob, ?2 the token, ?3 is 1 for an exclusive lock and 0 for a shared one.
pub const PASS: &str = "\
insert into lockhouse_fence (resource, highest, highest_exclusive)
values (?1, ?2, case when ?3 then ?2 else 0 end)
on conflict (resource) do update set
    highest = max(lockhouse_fence.highest, excluded.highest),
    highest_exclusive = max(lockhouse_fence.highest_exclusive, excluded.highest_exclusive)
where excluded.highest >= case when ?3 then lockhouse_fence.highest else lockhouse_fence.highest_exclusive end
returning highest";

/// After a refusal: the token that was needed. ?1 is the resource, ?2 is 1 for an exclusive lock and 0 for a
/// shared one.
pub const NEEDED: &str =
    "select case when ?2 then highest else highest_exclusive end from lockhouse_fence where resource = ?1";

#[cfg(feature = "fence-sqlite")]
pub use functions::{create_table, pass};

#[cfg(feature = "fence-sqlite")]
mod functions {
    use rusqlite::{Connection, Error, OptionalExtension, Transaction, params};

    use super::{NEEDED, PASS, TABLE};
    use crate::fence::{FenceError, parameters, stale};
    use crate::{FencingToken, Mode};

    /// Makes the table of the fence, if it is not there.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub fn create_table(db: &Connection) -> Result<(), Error> {
        db.execute_batch(TABLE)
    }

    /// Passes the fence of `resource` with the token of a lock of that mode, and shuts out holders of older
    /// ones.
    ///
    /// The other work of the transaction takes effect only if it passes: on an error, let it roll back. Begin
    /// it as `IMMEDIATE`, so that SQLite does not find only now that another connection has written since.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] if a holder passed that excludes this token, [`FenceError::Database`] if the
    /// database fails.
    pub fn pass(
        tx: &Transaction<'_>,
        resource: impl AsRef<[u8]>,
        token: FencingToken,
        mode: Mode,
    ) -> Result<(), FenceError<Error>> {
        let resource = resource.as_ref();
        let (number, exclusive) = parameters(token, mode);
        let mut pass = tx.prepare_cached(PASS).map_err(FenceError::Database)?;
        let passed = pass.query_row(params![resource, number, exclusive], |_| Ok(())).optional();
        if passed.map_err(FenceError::Database)?.is_some() {
            return Ok(());
        }
        let mut needed = tx.prepare_cached(NEEDED).map_err(FenceError::Database)?;
        let needed = needed.query_row(params![resource, exclusive], |row| row.get(0));
        Err(stale(resource, token, needed.map_err(FenceError::Database)?).into())
    }
}
