//! The history: who held what, from when to when, and why it ended. What is held now has no row yet. The
//! history is for people: nothing that is granted or refused rests on it.

use std::cell::Cell;

use lockhouse_core::{
    BrokenBy, ClaimEnd, FencingToken, Instant, LockEnd, LockRecord, NameBuf, OwnerEnd, OwnerId,
};
use rusqlite::types::Type;
use rusqlite::{Connection, Params, Row, params};

use super::load::wrong;
use super::statements::Statements;
use crate::history::HISTORY_ROWS_LOOKED_AT;
use crate::values::{self, bits, bytes, number, of_owner, wall, word};
use crate::{HistoryEnd, HistoryEntry, HistoryKind, HistoryPage, HistoryQuery, Scope};

/// How many rows are retained; the oldest are deleted.
pub(crate) const ROWS: u64 = 100_000;
/// How many more rows there may be before the oldest are deleted together.
const SLACK: u64 = 1000;

/// Bounds the growth of the table.
#[derive(Debug)]
pub(crate) struct HistoryBound {
    rows: u64,
    /// The rows added since the last deletion, including those of failed transactions.
    since: Cell<u64>,
}

/// Rows that a transaction has added.
#[derive(Debug, Default)]
pub(crate) struct AddedRows(Cell<u64>);

impl HistoryBound {
    pub(crate) fn new(rows: u64) -> Self {
        // The number of rows that the last process left is unknown, so the first addition deletes the
        // surplus.
        Self { rows, since: Cell::new(SLACK) }
    }

    /// Deletes the oldest rows if it is time to. A count that is too high, after a failed transaction, does
    /// no harm.
    pub(crate) fn keep(&self, statements: &Statements<'_>, rows: &AddedRows) -> rusqlite::Result<()> {
        self.since.set(self.since.get() + rows.0.get());
        if rows.0.get() == 0 || self.since.get() < SLACK {
            return Ok(());
        }
        let sql = "DELETE FROM history WHERE seq <= (SELECT max(seq) FROM history) - ?1";
        statements.run(sql, [bits(self.rows)])?;
        self.since.set(0);
        Ok(())
    }
}

/// Adds rows for one bucket. Each is added before the row that it is made of leaves its own table.
///
/// As rows come from another table, SQLite would keep a journal for the statement alone, to take back half of
/// it. `OR ROLLBACK` spares that: a failure here fails the whole transaction.
pub(crate) struct Writer<'a, 'f> {
    pub(crate) statements: &'a Statements<'f>,
    pub(crate) scope: &'a Scope,
    pub(crate) bucket: i64,
    pub(crate) rows: &'a AddedRows,
}

impl Writer<'_, '_> {
    /// An owner whose locks became void at its end has ended then.
    pub(crate) fn owner_ended(&self, owner: OwnerId, why: OwnerEnd, at: Instant) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, kind, since, at, why, owner, who)
                   SELECT ?1, ?2, 'owner', since, ?3, ?4, owner, label
                   FROM owners WHERE bucket = ?5 AND owner = ?6
                       AND NOT EXISTS (SELECT 1 FROM voided WHERE bucket = ?5 AND owner = ?6 AND what = 'all')";
        let Scope { tenant, bucket } = self.scope;
        let owner = bits(owner.get());
        self.add(sql, params![tenant, bucket, wall(at), of_owner(why), self.bucket, owner])
    }

    /// The owner's earlier lock of the name ends with the new one, if there is one.
    pub(crate) fn lock_replaced(&self, it: &LockRecord) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, kind, since, at, why, owner, name, mode, token, who)
                   SELECT ?1, ?2, 'offline', since, ?3,
                       CASE WHEN ?4 = 'exclusive' THEN 'upgraded' ELSE 'downgraded' END, owner, name, mode, token,
                       (SELECT label FROM owners WHERE bucket = ?5 AND owner = ?7)
                   FROM locks WHERE bucket = ?5 AND name = ?6 AND owner = ?7";
        let Scope { tenant, bucket } = self.scope;
        let (at, mode, owner) = (wall(it.since), word(it.mode), bits(it.owner.get()));
        self.add(sql, params![tenant, bucket, at, mode, self.bucket, bytes(&it.name), owner])
    }

    pub(crate) fn lock_ended(
        &self,
        name: &NameBuf,
        owner: OwnerId,
        why: &LockEnd,
        at: Instant,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, kind, since, at, why, owner, name, mode, token, who, operator, reason)
                   SELECT ?1, ?2, 'offline', since, ?3, ?4, owner, name, mode, token,
                       (SELECT label FROM owners WHERE bucket = ?5 AND owner = ?7), ?8, ?9
                   FROM locks WHERE bucket = ?5 AND name = ?6 AND owner = ?7";
        let Scope { tenant, bucket } = self.scope;
        let (word, owner) = (values::of_lock(why), bits(owner.get()));
        let (operator, reason) = match why {
            LockEnd::Broken(by) => said_by(by),
            _ => (None, None),
        };
        let params =
            params![tenant, bucket, wall(at), word, self.bucket, bytes(name), owner, operator, reason];
        self.add(sql, params)
    }

    pub(crate) fn claim_ended(&self, name: &NameBuf, why: &ClaimEnd, at: Instant) -> rusqlite::Result<()> {
        let (operator, reason) = match why {
            ClaimEnd::Broken(by) => said_by(by),
            _ => (None, None),
        };
        self.end_claim(name, values::of_claim(why), at, (operator, reason))
    }

    pub(crate) fn claim_finalized(&self, name: &NameBuf, at: Instant) -> rusqlite::Result<()> {
        self.end_claim(name, HistoryEnd::Finalized.word(), at, (None, None))
    }

    fn end_claim(
        &self,
        name: &NameBuf,
        why: &str,
        at: Instant,
        (operator, reason): (Option<&str>, Option<&str>),
    ) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, kind, since, at, why, name, token, who, operator, reason)
                   SELECT ?1, ?2, 'claim', since, ?3, ?4, name, token, claimant, ?7, ?8
                   FROM claims WHERE bucket = ?5 AND name = ?6";
        let Scope { tenant, bucket } = self.scope;
        self.add(sql, params![tenant, bucket, wall(at), why, self.bucket, bytes(name), operator, reason])
    }

    pub(crate) fn assignment_ended(&self, name: &NameBuf, at: Instant) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, kind, since, at, why, name, token, who)
                   SELECT ?1, ?2, 'assignment', since, ?3, 'unassigned', name, token, claimant
                   FROM assignments WHERE bucket = ?4 AND name = ?5";
        let Scope { tenant, bucket } = self.scope;
        self.add(sql, params![tenant, bucket, wall(at), self.bucket, bytes(name)])
    }

    fn add(&self, sql: &'static str, params: impl Params) -> rusqlite::Result<()> {
        let added = self.statements.run(sql, params)?;
        self.rows.0.set(self.rows.0.get() + added as u64);
        Ok(())
    }
}

fn said_by(by: &BrokenBy) -> (Option<&str>, Option<&str>) {
    (Some(&by.operator), by.reason.as_deref())
}

/// One page. The rows of other buckets are looked at, too, and count as the work of the page.
pub(crate) fn page(file: &Connection, query: &HistoryQuery) -> rusqlite::Result<HistoryPage> {
    let sql =
        "SELECT seq, tenant, bucket, kind, since, at, why, who, owner, name, mode, token, operator, reason
               FROM history WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2";
    let before = query.before.map_or(i64::MAX, bits);
    let mut statement = file.prepare_cached(sql)?;
    let mut rows = statement.query(params![before, HISTORY_ROWS_LOOKED_AT])?;
    let (mut page, mut looked_at) = (HistoryPage::default(), 0);
    while let Some(row) = rows.next()? {
        looked_at += 1;
        page.next = Some(number(row.get("seq")?));
        let is_of_bucket = row.get_ref("tenant")?.as_str()? == &*query.scope.tenant
            && row.get_ref("bucket")?.as_str()? == &*query.scope.bucket;
        if is_of_bucket {
            let entry = entry(row)?;
            if query.filter.is_met_by(&entry) {
                page.entries.push(entry);
            }
        }
        if page.entries.len() == query.limit {
            return Ok(page);
        }
    }
    if looked_at < HISTORY_ROWS_LOOKED_AT {
        page.next = None;
    }
    Ok(page)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<HistoryEntry> {
    let at = |column: &str| row.get(column).map(|ms| Instant::from_millis(number(ms)));
    let text = |why: String| wrong(0, Type::Text, why);
    let kind: String = row.get("kind")?;
    let why: String = row.get("why")?;
    let name: Option<Vec<u8>> = row.get("name")?;
    let name = name.map(|name| values::name(&name)).transpose();
    let mode: Option<String> = row.get("mode")?;
    let mode = mode.map(|mode| values::mode(&mode)).transpose();
    let token: Option<i64> = row.get("token")?;
    let token = token.map(|token| values::token(number(token))).transpose();
    let owner: Option<i64> = row.get("owner")?;
    let who: Option<Box<str>> = row.get("who")?;
    let token: Option<FencingToken> = token.map_err(text)?;
    Ok(HistoryEntry {
        seq: number(row.get("seq")?),
        kind: HistoryKind::of(&kind).ok_or_else(|| text(format!("{kind:?} is no kind of hold")))?,
        since: at("since")?,
        at: at("at")?,
        end: HistoryEnd::of(&why).ok_or_else(|| text(format!("{why:?} is no end of a hold")))?,
        who: who.unwrap_or_default(),
        owner: owner.map(|owner| OwnerId::new(number(owner))),
        name: name.map_err(text)?,
        mode: mode.map_err(text)?,
        token,
        operator: row.get("operator")?,
        reason: row.get("reason")?,
    })
}
