//! The history: the holders of names, with beginnings, ends and reasons. The history is for people. Lockhouse
//! itself never reads it.

use std::cell::Cell;

use lockhouse_core::{
    AssignmentRecord, ClaimRecord, Instant, LockRecord, NameBuf, OwnerEnd, OwnerId, OwnerRecord,
};
use rusqlite::{Params, params};

use super::statements::Statements;
use crate::Scope;
use crate::values::{bits, bytes, number_of, of_owner, wall, word};

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

/// Adds rows for one bucket.
///
/// Where rows come from another table, SQLite would keep a journal for the statement alone, to take back half
/// of it. `OR ROLLBACK` spares that: a failure here fails the whole transaction.
pub(crate) struct Writer<'a, 'f> {
    pub(crate) statements: &'a Statements<'f>,
    pub(crate) scope: &'a Scope,
    pub(crate) bucket: i64,
    pub(crate) rows: &'a AddedRows,
}

impl Writer<'_, '_> {
    pub(crate) fn owner_began(&self, it: &OwnerRecord) -> rusqlite::Result<()> {
        let sql = "INSERT INTO history (tenant, bucket, what, event, at, owner, who)
                   VALUES (?1, ?2, 'owner', 'began', ?3, ?4, ?5)";
        let Scope { tenant, bucket } = self.scope;
        self.add(sql, params![tenant, bucket, wall(it.since), bits(it.owner.get()), it.label])
    }

    /// To be called before the owner is deleted from its table. An owner whose locks became void at its end
    /// has ended then.
    pub(crate) fn owner_ended(&self, owner: OwnerId, why: OwnerEnd, at: Instant) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, what, event, at, why, owner, who)
                   SELECT ?1, ?2, 'owner', 'ended', ?3, ?4, owner, label
                   FROM owners WHERE bucket = ?5 AND owner = ?6
                       AND NOT EXISTS (SELECT 1 FROM voided WHERE bucket = ?5 AND owner = ?6 AND what = 'all')";
        let Scope { tenant, bucket } = self.scope;
        let owner = bits(owner.get());
        self.add(sql, params![tenant, bucket, wall(at), of_owner(why), self.bucket, owner])
    }

    pub(crate) fn lock_began(&self, it: &LockRecord) -> rusqlite::Result<()> {
        let sql = "INSERT INTO history (tenant, bucket, what, event, at, owner, name, mode, token, who)
                   VALUES (?1, ?2, 'lock', 'began', ?3, ?4, ?5, ?6, ?7,
                       (SELECT label FROM owners WHERE bucket = ?8 AND owner = ?4))";
        let Scope { tenant, bucket } = self.scope;
        let (at, owner, name) = (wall(it.since), bits(it.owner.get()), bytes(&it.name));
        let (mode, token) = (word(it.mode), number_of(it.token));
        self.add(sql, params![tenant, bucket, at, owner, name, mode, token, self.bucket])
    }

    /// To be called before the lock is deleted from its table.
    pub(crate) fn lock_ended(
        &self,
        name: &NameBuf,
        owner: OwnerId,
        why: &str,
        at: Instant,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, what, event, at, why, owner, name, mode, token, who)
                   SELECT ?1, ?2, 'lock', 'ended', ?3, ?4, owner, name, mode, token,
                       (SELECT label FROM owners WHERE bucket = ?5 AND owner = ?7)
                   FROM locks WHERE bucket = ?5 AND name = ?6 AND owner = ?7";
        let Scope { tenant, bucket } = self.scope;
        let owner = bits(owner.get());
        self.add(sql, params![tenant, bucket, wall(at), why, self.bucket, bytes(name), owner])
    }

    pub(crate) fn claim_began(&self, it: &ClaimRecord) -> rusqlite::Result<()> {
        let sql = "INSERT INTO history (tenant, bucket, what, event, at, name, token, who)
                   VALUES (?1, ?2, 'claim', 'began', ?3, ?4, ?5, ?6)";
        let Scope { tenant, bucket } = self.scope;
        let (at, name, token) = (wall(it.since), bytes(&it.name), number_of(it.token));
        self.add(sql, params![tenant, bucket, at, name, token, it.claimant])
    }

    /// To be called before the claim is deleted from its table.
    pub(crate) fn claim_ended(&self, name: &NameBuf, why: &str, at: Instant) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, what, event, at, why, name, token, who)
                   SELECT ?1, ?2, 'claim', 'ended', ?3, ?4, name, token, claimant
                   FROM claims WHERE bucket = ?5 AND name = ?6";
        let Scope { tenant, bucket } = self.scope;
        self.add(sql, params![tenant, bucket, wall(at), why, self.bucket, bytes(name)])
    }

    pub(crate) fn assignment_began(&self, it: &AssignmentRecord) -> rusqlite::Result<()> {
        let sql = "INSERT INTO history (tenant, bucket, what, event, at, name, token, who)
                   VALUES (?1, ?2, 'assignment', 'began', ?3, ?4, ?5, ?6)";
        let Scope { tenant, bucket } = self.scope;
        let (at, name, token) = (wall(it.since), bytes(&it.name), number_of(it.token));
        self.add(sql, params![tenant, bucket, at, name, token, it.claimant])
    }

    /// To be called before the assignment is deleted from its table.
    pub(crate) fn assignment_ended(&self, name: &NameBuf, at: Instant) -> rusqlite::Result<()> {
        let sql = "INSERT OR ROLLBACK INTO history (tenant, bucket, what, event, at, why, name, token, who)
                   SELECT ?1, ?2, 'assignment', 'ended', ?3, 'unassigned', name, token, claimant
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
