//! The fence as a table in PostgreSQL (9.5 or newer).
//!
#![cfg_attr(feature = "fence-postgres", doc = "```no_run")]
#![cfg_attr(not(feature = "fence-postgres"), doc = "```text")]
//! use lockhouse::{FencingToken, Mode, fence};
//!
//! # async fn example(token: FencingToken) -> Result<(), Box<dyn std::error::Error>> {
//! let address = "host=localhost dbname=shop";
//! let (mut db, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await?;
//! tokio::spawn(connection);
//! fence::postgres::create_table(&db).await?;
//!
//! // The critical section begins: from here on no older token passes.
//! let tx = db.transaction().await?;
//! fence::postgres::pass(&tx, b"stock/chair", token, Mode::Exclusive).await?;
//! let count: i64 = tx.query_one("select count from stock where item = 'chair'", &[]).await?.get(0);
//! tx.commit().await?;
//!
//! // Slow work, during which the lock may be lost. The write passes the fence again, or does not happen.
//! let tx = db.transaction().await?;
//! fence::postgres::pass(&tx, b"stock/chair", token, Mode::Exclusive).await?;
//! tx.execute("update stock set count = $1 where item = 'chair'", &[&(count - 1)]).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```

/// Makes the table, if it is not there. As any `create table if not exists` of PostgreSQL it may fail when
/// two run it at once.
pub const TABLE: &str = "\
create table if not exists lockhouse_fence (
    resource bytea primary key,
    highest bigint not null,
    highest_exclusive bigint not null
)";

/// Passes the fence: one row if it did, none if the token is stale. Run it inside the transaction that it
/// guards.
///
/// $1 is the resource (bytea), $2 the token (bigint), $3 whether the lock is exclusive (boolean).
pub const PASS: &str = "\
insert into lockhouse_fence (resource, highest, highest_exclusive)
values ($1, $2, case when $3 then $2 else 0 end)
on conflict (resource) do update set
    highest = greatest(lockhouse_fence.highest, excluded.highest),
    highest_exclusive = greatest(lockhouse_fence.highest_exclusive, excluded.highest_exclusive)
where excluded.highest >= case when $3 then lockhouse_fence.highest else lockhouse_fence.highest_exclusive end
returning highest";

/// After a refusal: the token that was needed. $1 is the resource (bytea), $2 whether the lock is exclusive
/// (boolean).
pub const NEEDED: &str =
    "select case when $2 then highest else highest_exclusive end from lockhouse_fence where resource = $1";

#[cfg(feature = "fence-postgres")]
pub use functions::{create_table, pass};

#[cfg(feature = "fence-postgres")]
mod functions {
    use tokio_postgres::types::Type;
    use tokio_postgres::{Client, Error, Transaction};

    use super::{NEEDED, PASS, TABLE};
    use crate::fence::{FenceError, parameters, stale};
    use crate::{FencingToken, Mode};

    /// Makes the table of the fence, if it is not there.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn create_table(db: &Client) -> Result<(), Error> {
        db.batch_execute(TABLE).await
    }

    /// Passes the fence of `resource` with the token of a lock of that mode, and shuts out holders of older
    /// ones.
    ///
    /// The call takes one round trip, and a second one to report the token that was needed. Until the
    /// transaction ends others at the fence of this resource wait for it, shared ones as well: keep it short.
    /// The other work of the transaction takes effect only if it passes: on an error, let it roll back. Every
    /// isolation level will do.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] if a holder passed that excludes this token, [`FenceError::Database`] if the
    /// database fails: under `repeatable read` and `serializable` also with a serialisation failure, when
    /// another holder passed since the transaction began.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped before it is done may have passed or not: only the commit of the transaction
    /// counts.
    pub async fn pass(
        tx: &Transaction<'_>,
        resource: impl AsRef<[u8]>,
        token: FencingToken,
        mode: Mode,
    ) -> Result<(), FenceError<Error>> {
        let resource = resource.as_ref();
        let (number, exclusive) = parameters(token, mode);
        let rows = tx
            .query_typed(PASS, &[(&resource, Type::BYTEA), (&number, Type::INT8), (&exclusive, Type::BOOL)])
            .await;
        if !rows.map_err(FenceError::Database)?.is_empty() {
            return Ok(());
        }
        let rows = tx.query_typed(NEEDED, &[(&resource, Type::BYTEA), (&exclusive, Type::BOOL)]).await;
        match rows.map_err(FenceError::Database)?.first() {
            Some(row) => Err(stale(resource, token, row.try_get(0).map_err(FenceError::Database)?).into()),
            // The refusal has locked the row.
            None => unreachable!("the row that refused the token is gone"),
        }
    }
}
