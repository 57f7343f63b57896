//! Rows of locks that became void and are still to be swept.

use lockhouse_core::{Change, Instant, OwnerId, VoidLocks};
use rusqlite::types::Type;
use rusqlite::{Error, Row, params};

use super::statements::Statements;
use crate::values::void_locks::{self, VoidRow};
use crate::values::{bits, number, wall};

/// Adds a row for locks of that owner.
pub(crate) fn add(
    statements: &Statements<'_>,
    bucket: i64,
    owner: OwnerId,
    which: &VoidLocks,
    at: Instant,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO voided (bucket, owner, seq, at, what, why, up_to, names)
               SELECT ?1, ?2, coalesce(max(seq), 0) + 1, ?3, ?4, ?5, ?6, ?7
               FROM voided WHERE bucket = ?1 AND owner = ?2";
    let VoidRow { what, why, up_to, names } = VoidRow::of(which);
    let values = params![bucket, bits(owner.get()), wall(at), what, why, up_to, names];
    statements.run(sql, values).map(drop)
}

/// Forgets the rows of that owner.
pub(crate) fn remove(statements: &Statements<'_>, bucket: i64, owner: OwnerId) -> rusqlite::Result<()> {
    let sql = "DELETE FROM voided WHERE bucket = ?1 AND owner = ?2";
    statements.run(sql, params![bucket, bits(owner.get())]).map(drop)
}

/// The query whose rows [`read`] reads.
pub(crate) const QUERY: &str =
    "SELECT owner, at, what, why, up_to, names FROM voided WHERE bucket = ?1 ORDER BY owner, seq";

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Change> {
    let (what, why) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str_or_null()?);
    let which = void_locks::read(what, why, row.get(4)?, row.get_ref(5)?.as_blob()?)
        .map_err(|why| Error::FromSqlConversionFailure(2, Type::Text, why.into()))?;
    let at = Instant::from_millis(number(row.get(1)?));
    Ok(Change::LocksVoided { owner: OwnerId::new(number(row.get(0)?)), which, at })
}
