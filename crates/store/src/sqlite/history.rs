//! The history: who held what, from when to when, and why it ended. What is held now has no row yet. The
//! history is for people: nothing that is granted or refused rests on it.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

use lockhouse_core::{BrokenBy, ClaimEnd, FencingToken, LockEnd, LockRecord, NameBuf, OwnerEnd, OwnerId};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::load::wrong;
use super::statements::Statements;
use crate::history::HISTORY_ROWS_LOOKED_AT;
use crate::values::{self, bits, bytes, number, of_owner, wall, word};
use crate::{
    HistoryBounds, HistoryEnd, HistoryEntry, HistoryKind, HistoryPage, HistoryQuery, RefusalRecord, Scope,
};

/// How many rows are added before the surplus is counted again, and how many that are too old are deleted at
/// once.
const SLACK: u64 = 1000;

/// How many rows a commit looks at for the oldest of a kind.
const LOOK: u64 = 4 * SLACK;

/// The time between two looks for rows that are too old.
const AGE_CHECK: Duration = Duration::from_secs(60);

/// Bounds the growth of the table. A commit deletes a few thousand rows at most, and looks at no more.
#[derive(Debug)]
pub(crate) struct HistoryBound {
    bounds: HistoryBounds,
    /// The rows added since the last deletion, including those of failed transactions.
    since: Cell<u64>,
    /// When rows were last looked for that are too old; none if some may be left.
    looked: Cell<Option<Instant>>,
    /// For each of [`OF`] a number below which there is none of them.
    from: Cell<[i64; 2]>,
}

/// Rows that a transaction has added.
#[derive(Debug, Default)]
pub(crate) struct AddedRows {
    count: Cell<u64>,
    /// Nothing is kept.
    pub(crate) is_off: bool,
}

/// Rows that are no refusals, and rows that are: each with its index, in the order of their ends.
const OF: [(&str, &str); 2] = [("history_ends", "why <> 'refused'"), ("history_refusals", "why = 'refused'")];

impl HistoryBound {
    pub(crate) fn new(bounds: HistoryBounds) -> Self {
        // The number of rows that the last process added is unknown, so the first commit deletes the surplus.
        // Where nothing is kept, rows go by their age alone.
        let since = if bounds.rows == 0 { 0 } else { SLACK };
        Self { bounds, since: Cell::new(since), looked: Cell::default(), from: Cell::default() }
    }

    /// For a transaction that begins.
    pub(crate) fn added(&self) -> AddedRows {
        AddedRows { is_off: self.bounds.rows == 0, ..AddedRows::default() }
    }

    /// Forgets what is known of the rows, as a transaction has failed.
    pub(crate) fn undone(&self) {
        self.from.take();
    }

    /// Deletes a part of the oldest rows if it is time to: those beyond the bounds, and those that are too
    /// old. Refusals push nothing out but refusals.
    pub(crate) fn keep(&self, file: &Connection, rows: &AddedRows) -> rusqlite::Result<()> {
        self.since.set(self.since.get() + rows.count.get());
        let is_time_to_look = self.looked.get().is_none_or(|looked| looked.elapsed() >= AGE_CHECK);
        let oldest = if is_time_to_look { self.bounds.oldest(SystemTime::now()) } else { None };
        let is_time_to_count = self.since.get() >= SLACK;
        if !is_time_to_count && oldest.is_none() {
            return Ok(());
        }
        let mut counts = count(file)?;
        if let Some(oldest) = oldest {
            let mut is_done = true;
            for (of, count) in OF.iter().zip(&mut counts) {
                let deleted = delete_older(file, *of, wall(oldest))?;
                *count = count.saturating_sub(deleted);
                is_done &= deleted < SLACK;
            }
            self.looked.set(is_done.then(Instant::now));
        }
        let mut from = self.from.get();
        if is_time_to_count {
            let bounds = [self.bounds.rows, self.bounds.refusals()].map(u64::from);
            let mut is_done = true;
            for (((_, of), from), (count, bound)) in
                OF.iter().zip(&mut from).zip(counts.iter_mut().zip(bounds))
            {
                let surplus = count.saturating_sub(bound);
                if surplus > 0 {
                    let (deleted, is_end) = delete_first(file, of, from, surplus.min(2 * SLACK))?;
                    *count = count.saturating_sub(deleted);
                    is_done &= deleted == surplus || is_end;
                }
            }
            self.since.set(if is_done { 0 } else { SLACK });
        }
        let sql = "UPDATE history_counts SET up_to = (SELECT coalesce(max(seq), 0) FROM history), ends = ?1, refusals = ?2
                   RETURNING up_to";
        let up_to: i64 = file.query_row(sql, counts.map(bits), |row| row.get(0))?;
        // The next row has the number behind the last one that is left.
        self.from.set(from.map(|from| from.min(up_to + 1)));
        Ok(())
    }
}

/// How many rows there are of each: those that were counted, and those behind. Never more than there are
/// numbers, as others may have deleted rows while the file was not in use.
fn count(file: &Connection) -> rusqlite::Result<[u64; 2]> {
    let sql = "SELECT ends + count(*) FILTER (WHERE why <> 'refused'),
                   refusals + count(*) FILTER (WHERE why = 'refused'),
                   coalesce((SELECT max(seq) FROM history) - (SELECT min(seq) FROM history) + 1, 0)
               FROM history_counts LEFT JOIN history ON seq > up_to";
    file.query_row(sql, [], |row| {
        let most = number(row.get(2)?);
        Ok([number(row.get(0)?).min(most), number(row.get(1)?).min(most)])
    })
}

/// Deletes rows that ended before that time, a thousand at most. Returns how many.
fn delete_older(file: &Connection, (index, of): (&str, &str), before: i64) -> rusqlite::Result<u64> {
    let sql = format!(
        "DELETE FROM history WHERE seq IN (
             SELECT seq FROM history INDEXED BY {index} WHERE {of} AND at < ?1 ORDER BY at LIMIT ?2)"
    );
    Ok(file.execute(&sql, [before, bits(SLACK)])? as u64)
}

/// Deletes so many of those rows at most, the first that were added, whatever the clock said then: from that
/// number on, which moves behind what was looked at. Returns how many, and whether no rows come behind.
fn delete_first(file: &Connection, of: &str, from: &mut i64, most: u64) -> rusqlite::Result<(u64, bool)> {
    let next = "SELECT seq FROM history WHERE seq >= ?1 ORDER BY seq LIMIT 1 OFFSET ?2";
    let next: Option<i64> = file.query_row(next, [*from, bits(LOOK)], |row| row.get(0)).optional()?;
    let end = next.unwrap_or(i64::MAX);
    let sql = format!(
        "DELETE FROM history WHERE seq IN (
             SELECT seq FROM history NOT INDEXED WHERE {of} AND seq >= ?1 AND seq < ?2 ORDER BY seq LIMIT ?3)"
    );
    let deleted = file.execute(&sql, [*from, end, bits(most)])? as u64;
    if deleted < most {
        *from = end;
    }
    Ok((deleted, deleted < most && next.is_none()))
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
        self.rows.count.set(self.rows.count.get() + added as u64);
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
    rows.count.set(rows.count.get() + 1);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::SecretKey;
    use crate::sqlite::schema;

    fn file() -> Connection {
        let mut file = Connection::open_in_memory().unwrap();
        schema::create(&mut file, &SecretKey::new([7; 32])).unwrap();
        file
    }

    /// Adds so many rows, which will never be too old.
    fn add(file: &Connection, why: &str, count: u32) {
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
                   INSERT INTO history (tenant, bucket, kind, since, at, why)
                   SELECT 't', 'b', 'claim', 1, 9000000000000000, ?1 FROM n";
        file.execute(sql, params![why, count]).unwrap();
    }

    /// How many rows there are, and how many numbers from the first to the last.
    fn left(file: &Connection, why: &str) -> (u64, u64) {
        let sql = "SELECT count(*), coalesce(max(seq) - min(seq) + 1, 0) FROM history WHERE why = ?1";
        file.query_row(sql, [why], |row| Ok((number(row.get(0)?), number(row.get(1)?)))).unwrap()
    }

    /// Of many rows, with a surplus of refusals behind all else, or before it.
    #[test]
    fn no_commit_looks_at_more_than_a_few_thousand_rows_for_those_that_were_added_first() {
        let all = [("released", 50_000), ("refused", 9000)];
        for kinds in [all, [all[1], all[0]]] {
            let mut file = file();
            kinds.iter().for_each(|(why, count)| add(&file, why, *count));
            let counts = "UPDATE history_counts SET up_to = 59000, ends = 50000, refusals = 9000";
            file.execute(counts, []).unwrap();
            let bound = HistoryBound::new(HistoryBounds { rows: 45_000, age: None });
            let instructions = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&instructions);
            let count = move || counter.fetch_add(100, Ordering::Relaxed) == usize::MAX;
            file.progress_handler(100, Some(count)).unwrap();
            for _ in 0..30 {
                bound.keep(&file, &bound.added()).unwrap();
                let most = instructions.swap(0, Ordering::Relaxed);
                assert!(most < 250_000, "{most} instructions");
            }
            assert_eq!(["released", "refused"].map(|why| left(&file, why)), [(45_000, 45_000), (4500, 4500)]);
        }
    }

    #[test]
    fn rows_that_were_passed_go_all_the_same_after_a_failed_commit_and_where_numbers_come_again() {
        let file = file();
        let bound = HistoryBound::new(HistoryBounds { rows: 1000, ..HistoryBounds::DEFAULT });
        let keep = |times| {
            for _ in 0..times {
                bound.since.set(SLACK);
                bound.looked.set(None);
                bound.keep(&file, &bound.added()).unwrap();
            }
            left(&file, "released").0
        };
        for (why, count) in [("released", 1500), ("refused", 5000), ("released", 3500)] {
            add(&file, why, count);
        }
        file.execute_batch("BEGIN").unwrap();
        assert_eq!(keep(1), 3500);
        file.execute_batch("ROLLBACK").unwrap();
        bound.undone();
        assert_eq!(keep(9), 1000);

        file.execute("UPDATE history SET at = 1", []).unwrap();
        assert_eq!(keep(1), 0);
        add(&file, "released", 1500);
        assert_eq!(left(&file, "released"), (1500, 1500));
        assert_eq!(keep(1), 1000);
    }
}
