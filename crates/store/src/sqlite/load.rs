//! Rows read back into what was committed.

use std::mem;
use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, Change, ClaimRecord, FencingToken, Instant, LockRecord, NameBuf, OwnerId, OwnerRecord,
    SecretSeed,
};
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Row, params};
use tokio::sync::mpsc::Sender;

use super::voided;
use crate::values::{self, bits, number};
use crate::{MarkOf, RecoveredRow, Scope, TokenMark};

/// How many rows are sent to the caller together.
const BATCH: usize = 1000;

/// Sends the whole state in the order of [`RecoveredRow`], unless the receiver is gone.
pub(crate) fn send_rows(
    file: &Connection,
    tickets_since: u64,
    to: &Sender<Vec<RecoveredRow>>,
) -> rusqlite::Result<()> {
    let mut out = Out { batch: Vec::new(), to };
    send_marks(file, "SELECT tenant_group, mark FROM floors ORDER BY tenant_group", MarkOf::Group, &mut out)?;
    send_marks(file, "SELECT tenant, mark FROM tenants ORDER BY tenant", MarkOf::Tenant, &mut out)?;
    let sql =
        "SELECT id, tenant, bucket, mark, told_in >= ?1 AND told_in > 0 FROM buckets ORDER BY tenant, bucket";
    let mut buckets = file.prepare_cached(sql)?;
    let mut rows = buckets.query([bits(tickets_since)])?;
    while let Some(row) = rows.next()?
        && !out.to.is_closed()
    {
        send_bucket(file, row, &mut out)?;
    }
    out.flush();
    Ok(())
}

fn send_marks(
    file: &Connection,
    sql: &str,
    of: fn(Box<str>) -> MarkOf,
    out: &mut Out<'_>,
) -> rusqlite::Result<()> {
    let mut marks = file.prepare_cached(sql)?;
    let mut rows = marks.query([])?;
    while let Some(row) = rows.next()? {
        out.push(RecoveredRow::Mark(TokenMark { of: of(row.get(0)?), up_to: number(row.get(1)?) }));
    }
    Ok(())
}

type ReadRow = fn(&Row<'_>) -> rusqlite::Result<Change>;

fn send_bucket(file: &Connection, row: &Row<'_>, out: &mut Out<'_>) -> rusqlite::Result<()> {
    let bucket: i64 = row.get(0)?;
    let scope = Arc::new(Scope { tenant: row.get(1)?, bucket: row.get(2)? });
    out.push(RecoveredRow::Bucket { scope: Arc::clone(&scope), needs_recovery: row.get(4)? });
    let mark = number(row.get(3)?);
    if mark > 0 {
        out.push(RecoveredRow::Change {
            scope: Arc::clone(&scope),
            change: Change::TokensReserved { up_to: mark },
        });
    }
    let kinds: [(&str, ReadRow); 5] = [
        (
            "SELECT owner, label, metadata, ttl_ms, since, ends, seal FROM owners WHERE bucket = ?1 ORDER BY owner",
            owner,
        ),
        (
            "SELECT name, owner, mode, token, since, metadata FROM locks WHERE bucket = ?1 ORDER BY token, name, owner",
            lock,
        ),
        (voided::QUERY, voided::read),
        (
            "SELECT name, claimant, token, ttl_ms, since, seal, metadata FROM claims WHERE bucket = ?1 ORDER BY token, name",
            claim,
        ),
        (
            "SELECT name, claimant, token, since, seal FROM assignments WHERE bucket = ?1 ORDER BY token, name",
            assignment,
        ),
    ];
    for (sql, read) in kinds {
        let mut statement = file.prepare_cached(sql)?;
        let mut rows = statement.query(params![bucket])?;
        while let Some(row) = rows.next()? {
            out.push(RecoveredRow::Change { scope: Arc::clone(&scope), change: read(row)? });
        }
    }
    Ok(())
}

fn owner(row: &Row<'_>) -> rusqlite::Result<Change> {
    Ok(Change::OwnerOpened(OwnerRecord {
        owner: OwnerId::new(number(row.get(0)?)),
        label: row.get(1)?,
        metadata: row.get(2)?,
        ttl_ms: number(row.get(3)?),
        since: instant(row, 4)?,
        ends: row.get::<_, Option<i64>>(5)?.map(|ms| Instant::from_millis(number(ms))),
        seed: SecretSeed(number(row.get(6)?)),
    }))
}

fn lock(row: &Row<'_>) -> rusqlite::Result<Change> {
    Ok(Change::Locked(LockRecord {
        name: name(row, 0)?,
        owner: OwnerId::new(number(row.get(1)?)),
        mode: values::mode(row.get_ref(2)?.as_str()?).map_err(|why| wrong(2, Type::Text, why))?,
        token: token(row, 3)?,
        since: instant(row, 4)?,
        metadata: row.get(5)?,
    }))
}

fn claim(row: &Row<'_>) -> rusqlite::Result<Change> {
    Ok(Change::Claimed(ClaimRecord {
        name: name(row, 0)?,
        claimant: row.get(1)?,
        token: token(row, 2)?,
        ttl_ms: number(row.get(3)?),
        since: instant(row, 4)?,
        seed: SecretSeed(number(row.get(5)?)),
        metadata: row.get(6)?,
    }))
}

fn assignment(row: &Row<'_>) -> rusqlite::Result<Change> {
    Ok(Change::Assigned(AssignmentRecord {
        name: name(row, 0)?,
        claimant: row.get(1)?,
        token: token(row, 2)?,
        since: instant(row, 3)?,
        seed: SecretSeed(number(row.get(4)?)),
    }))
}

fn name(row: &Row<'_>, column: usize) -> rusqlite::Result<NameBuf> {
    values::name(row.get_ref(column)?.as_blob()?).map_err(|why| wrong(column, Type::Blob, why))
}

fn token(row: &Row<'_>, column: usize) -> rusqlite::Result<FencingToken> {
    values::token(number(row.get(column)?)).map_err(|why| wrong(column, Type::Integer, why))
}

fn instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Instant> {
    row.get(column).map(|ms| Instant::from_millis(number(ms)))
}

pub(crate) fn wrong(column: usize, found: Type, why: String) -> Error {
    Error::FromSqlConversionFailure(column, found, why.into())
}

/// Gathers rows, so that the caller is not woken for each.
struct Out<'a> {
    batch: Vec<RecoveredRow>,
    to: &'a Sender<Vec<RecoveredRow>>,
}

impl Out<'_> {
    fn push(&mut self, row: RecoveredRow) {
        self.batch.push(row);
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        // A receiver that is gone does not need the rows.
        let _ = self.to.blocking_send(mem::take(&mut self.batch));
    }
}
