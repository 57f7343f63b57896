//! The history: who held what, from when to when, and why it ended. What is held now has no row yet. The
//! history is for people: nothing that is granted or refused rests on it.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

use lockhouse_core::{BrokenBy, ClaimEnd, FencingToken, LockEnd, LockRecord, NameBuf, OwnerEnd, OwnerId};
use rusqlite::types::Type;
use rusqlite::{Connection, Params, Row, params};

use super::load::wrong;
use super::statements::Statements;
use crate::history::HISTORY_ROWS_LOOKED_AT;
use crate::values::{self, bits, bytes, number, of_owner, wall, word};
use crate::{
    HistoryBounds, HistoryEnd, HistoryEntry, HistoryKind, HistoryPage, HistoryQuery, RefusalRecord, Scope,
};

/// How many rows are added before the surplus is counted again, and how many are deleted at once at most.
const SLACK: u64 = 1000;

/// The time between two looks for rows that are too old.
const AGE_CHECK: Duration = Duration::from_secs(60);

/// Bounds the growth of the table.
#[derive(Debug)]
pub(crate) struct HistoryBound {
    bounds: HistoryBounds,
    /// The rows added since the last deletion, including those of failed transactions.
    since: Cell<u64>,
    /// How many rows there are that are no refusals, and that are; none while that is unknown.
    counts: Cell<Option<[u64; 2]>>,
    /// When rows were last looked for that are too old.
    looked: Cell<Option<Instant>>,
}

/// Rows that a transaction has added.
#[derive(Debug, Default)]
pub(crate) struct AddedRows {
    /// Of those that are no refusals, and of refusals.
    counts: [Cell<u64>; 2],
    /// Nothing is kept.
    pub(crate) is_off: bool,
}

/// Rows that are no refusals, and rows that are.
const OF: [&str; 2] = ["why <> 'refused'", "why = 'refused'"];

impl HistoryBound {
    pub(crate) fn new(bounds: HistoryBounds) -> Self {
        // The number of rows that the last process left is unknown, so the first addition deletes the
        // surplus.
        Self { bounds, since: Cell::new(SLACK), counts: Cell::default(), looked: Cell::default() }
    }

    /// For a transaction that begins.
    pub(crate) fn added(&self) -> AddedRows {
        AddedRows { is_off: self.bounds.rows == 0, ..AddedRows::default() }
    }

    /// A transaction has failed, with what it added and deleted.
    pub(crate) fn forget_counts(&self) {
        self.counts.set(None);
    }

    /// Deletes a part of the oldest rows if it is time to: those beyond the bounds, and those that are too
    /// old. Refusals push nothing out but refusals.
    pub(crate) fn keep(&self, file: &Connection, rows: &AddedRows) -> rusqlite::Result<()> {
        let added = [rows.counts[0].get(), rows.counts[1].get()];
        if added == [0, 0] {
            return Ok(());
        }
        self.since.set(self.since.get() + added[0] + added[1]);
        let known = self.counts.take();
        let mut counts = known.map(|[held, refused]| [held + added[0], refused + added[1]]);
        let is_time_to_look = self.looked.get().is_none_or(|looked| looked.elapsed() >= AGE_CHECK);
        if self.since.get() >= SLACK || is_time_to_look {
            let mut exact = match counts {
                Some(counts) => counts,
                None => count(file)?,
            };
            if is_time_to_look && let Some(oldest) = self.bounds.oldest(SystemTime::now()) {
                self.looked.set(Some(Instant::now()));
                delete_older(file, oldest, &mut exact)?;
            }
            let bounds = [self.bounds.rows, self.bounds.refusals()].map(u64::from);
            let mut is_done = true;
            for ((of, count), bound) in OF.iter().zip(&mut exact).zip(bounds) {
                let surplus = count.saturating_sub(bound);
                let now = surplus.min(2 * SLACK);
                is_done &= now == surplus;
                if now > 0 && (self.since.get() >= SLACK) {
                    let sql = format!(
                        "DELETE FROM history WHERE seq IN (SELECT seq FROM history WHERE {of} ORDER BY seq LIMIT ?1)"
                    );
                    *count -= file.execute(&sql, [bits(now)])? as u64;
                }
            }
            if self.since.get() >= SLACK {
                self.since.set(if is_done { 0 } else { SLACK });
            }
            counts = Some(exact);
        }
        self.counts.set(counts);
        Ok(())
    }
}

fn count(file: &Connection) -> rusqlite::Result<[u64; 2]> {
    let sql = "SELECT count(*) FILTER (WHERE why <> 'refused'), count(*) FILTER (WHERE why = 'refused') FROM history";
    file.query_row(sql, [], |row| Ok([number(row.get(0)?), number(row.get(1)?)]))
}

/// Of the oldest rows, as they were added.
fn delete_older(
    file: &Connection,
    oldest: lockhouse_core::Instant,
    counts: &mut [u64; 2],
) -> rusqlite::Result<()> {
    for (of, count) in OF.iter().zip(counts) {
        let sql = format!(
            "DELETE FROM history WHERE seq IN (
                 SELECT seq FROM (SELECT seq, at, why FROM history ORDER BY seq LIMIT {SLACK})
                 WHERE at < ?1 AND {of})"
        );
        *count -= file.execute(&sql, [wall(oldest)])? as u64;
    }
    Ok(())
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
    pub(crate) fn owner_ended(
        &self,
        owner: OwnerId,
        why: OwnerEnd,
        at: lockhouse_core::Instant,
    ) -> rusqlite::Result<()> {
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
        at: lockhouse_core::Instant,
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

    pub(crate) fn claim_ended(
        &self,
        name: &NameBuf,
        why: &ClaimEnd,
        at: lockhouse_core::Instant,
    ) -> rusqlite::Result<()> {
        let (operator, reason) = match why {
            ClaimEnd::Broken(by) => said_by(by),
            _ => (None, None),
        };
        self.end_claim(name, values::of_claim(why), at, (operator, reason))
    }

    pub(crate) fn claim_finalized(
        &self,
        name: &NameBuf,
        at: lockhouse_core::Instant,
    ) -> rusqlite::Result<()> {
        self.end_claim(name, HistoryEnd::Finalized.word(), at, (None, None))
    }

    fn end_claim(
        &self,
        name: &NameBuf,
        why: &str,
        at: lockhouse_core::Instant,
        (operator, reason): (Option<&str>, Option<&str>),
    ) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, kind, since, at, why, name, token, who, operator, reason)
                   SELECT ?1, ?2, 'claim', since, ?3, ?4, name, token, claimant, ?7, ?8
                   FROM claims WHERE bucket = ?5 AND name = ?6";
        let Scope { tenant, bucket } = self.scope;
        self.add(sql, params![tenant, bucket, wall(at), why, self.bucket, bytes(name), operator, reason])
    }

    pub(crate) fn assignment_ended(
        &self,
        name: &NameBuf,
        at: lockhouse_core::Instant,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, kind, since, at, why, name, token, who)
                   SELECT ?1, ?2, 'assignment', since, ?3, 'unassigned', name, token, claimant
                   FROM assignments WHERE bucket = ?4 AND name = ?5";
        let Scope { tenant, bucket } = self.scope;
        self.add(sql, params![tenant, bucket, wall(at), self.bucket, bytes(name)])
    }

    fn add(&self, sql: &'static str, params: impl Params) -> rusqlite::Result<()> {
        if self.rows.is_off {
            return Ok(());
        }
        let added = self.statements.run(sql, params)?;
        self.rows.counts[0].set(self.rows.counts[0].get() + added as u64);
        Ok(())
    }
}

/// Adds the row of a refusal.
pub(crate) fn refused(
    statements: &Statements<'_>,
    scope: &Scope,
    it: &RefusalRecord,
    rows: &AddedRows,
) -> rusqlite::Result<()> {
    if rows.is_off {
        return Ok(());
    }
    let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, kind, since, at, why, owner, name, mode, who, times)
               VALUES (?1, ?2, ?3, ?4, ?5, 'refused', ?6, ?7, ?8, ?9, ?10)";
    let Scope { tenant, bucket } = scope;
    let (kind, owner, mode) = (it.kind.word(), it.owner.map(|owner| bits(owner.get())), it.mode.map(word));
    let (since, at, name) = (wall(it.since), wall(it.at), bytes(&it.name));
    let params = params![tenant, bucket, kind, since, at, owner, name, mode, it.who, it.count];
    statements.run(sql, params)?;
    rows.counts[1].set(rows.counts[1].get() + 1);
    Ok(())
}

fn said_by(by: &BrokenBy) -> (Option<&str>, Option<&str>) {
    (Some(&by.operator), by.reason.as_deref())
}

/// One page. The rows of other buckets are looked at, too, and count as the work of the page.
pub(crate) fn page(file: &Connection, query: &HistoryQuery) -> rusqlite::Result<HistoryPage> {
    let sql =
        "SELECT seq, tenant, bucket, kind, since, at, why, who, owner, name, mode, token, operator, reason, times
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
    let at = |column: &str| row.get(column).map(|ms| lockhouse_core::Instant::from_millis(number(ms)));
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
        count: row.get::<_, Option<u32>>("times")?.unwrap_or(1),
        waiting_since: None,
    })
}
