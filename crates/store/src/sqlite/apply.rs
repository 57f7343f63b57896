//! Batches turned into rows.

use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, Change, ClaimRecord, LockEnd, LockRecord, NameBuf, OwnerId, OwnerRecord, VoidLocks,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::history::{self, AddedRows};
use super::load::wrong;
use super::statements::Statements;
use super::voided;
use crate::state::writer::WriterState;
use crate::values::{bits, bytes, held_list, number, number_of, wall, word};
use crate::{CommitBatch, CommitOutcome, MarkOf, Opened, Scope, SecretKey, Slot, TokenMark, Write, WriterId};

/// Gives the slot a new epoch, which uses up the list of held web locks.
pub(crate) fn take(file: &Connection, writer: WriterId) -> rusqlite::Result<Opened> {
    let key = file.query_row("SELECT key FROM secret", [], |row| row.get(0).map(SecretKey::new))?;
    let held =
        file.query_row("SELECT held FROM slots", [], |row| match row.get_ref(0)?.as_blob_or_null()? {
            Some(bytes) => held_list::from_bytes(bytes).map(Some).map_err(|why| wrong(0, Type::Blob, why)),
            None => Ok(None),
        })?;
    let sql = "UPDATE slots SET epoch = epoch + 1, writer = ?1, held = NULL, longest_lease_ms = 0,
                   longest_lease_before_ms = max(longest_lease_before_ms, longest_lease_ms)
               RETURNING epoch, clean, restored, longest_lease_before_ms, tickets_since, token_floor";
    file.query_row(sql, [bits(writer.0)], |row| {
        Ok(Opened {
            epoch: number(row.get(0)?),
            key,
            clean: row.get(1)?,
            restored: row.get(2)?,
            longest_lease_ms: number(row.get(3)?),
            tickets_since: number(row.get(4)?),
            token_floor: number(row.get(5)?),
            held,
        })
    })
}

/// A bucket and its number in the tables.
pub(crate) type CachedBucket = Option<(Arc<Scope>, i64)>;

/// Puts the batch into the tables if it is the next one; `last` is the bucket of the previous write, as most
/// writes are in the same bucket as the previous one. The writer's state need not be in the file: only this
/// process writes it, and the next one begins a new epoch.
pub(crate) fn apply_batch(
    statements: &Statements<'_>,
    writer_state: &mut WriterState,
    last: &mut CachedBucket,
    batch: &CommitBatch,
    rows: &AddedRows,
) -> rusqlite::Result<CommitOutcome> {
    if let Some(outcome) = settled_outcome(*writer_state, batch) {
        return Ok(outcome);
    }
    let mut writes = Writes { statements, writer_state, last, rows };
    batch.writes.iter().try_for_each(|write| writes.put(write))?;
    writer_state.advance(batch);
    Ok(CommitOutcome::Committed)
}

/// The outcome of a batch that need not or must not go into the tables.
pub(crate) fn settled_outcome(writer_state: WriterState, batch: &CommitBatch) -> Option<CommitOutcome> {
    if batch.slot == Slot::ONLY { writer_state.settled_outcome(batch) } else { Some(CommitOutcome::Fenced) }
}

struct Writes<'a, 'f> {
    statements: &'a Statements<'f>,
    writer_state: &'a mut WriterState,
    last: &'a mut CachedBucket,
    rows: &'a AddedRows,
}

impl Writes<'_, '_> {
    fn put(&mut self, write: &Write) -> rusqlite::Result<()> {
        match write {
            Write::Change { scope, change } => {
                let bucket = self.bucket(scope)?;
                self.change(bucket, scope, change)
            }
            Write::BucketDropped { scope, mark } => {
                self.drop_bucket(scope)?;
                mark.iter().try_for_each(|mark| self.raise(mark))
            }
            Write::MarksReplaced { marks } => {
                self.run("DELETE FROM floors", [])?;
                self.run("DELETE FROM tenants", [])?;
                marks.iter().try_for_each(|mark| self.raise(mark))
            }
            Write::NeedsRecovery { scope } => {
                let bucket = self.bucket(scope)?;
                self.run(
                    "UPDATE buckets SET told_in = ?2 WHERE id = ?1",
                    params![bucket, bits(self.writer_state.epoch())],
                )?;
                self.run("UPDATE slots SET clean = 0", [])
            }
            Write::LongestLease { ms } => {
                self.run("UPDATE slots SET longest_lease_ms = max(longest_lease_ms, ?1)", [bits(*ms)])
            }
            Write::RecoveryCompleted => self
                .run("UPDATE slots SET tickets_since = epoch, longest_lease_before_ms = 0, restored = 0", []),
            Write::StoppedClean => {
                self.writer_state.end();
                let sql = "UPDATE slots SET clean = 1, tickets_since = epoch + 1, restored = 0,
                           longest_lease_ms = 0, longest_lease_before_ms = 0";
                self.run(sql, [])
            }
            Write::StoppedHolding { held } => {
                self.writer_state.end();
                self.run("UPDATE slots SET held = ?1", [held.as_ref().map(held_list::to_bytes)])
            }
            Write::MarkErased => self.run("UPDATE slots SET clean = 0", []),
            Write::Refused { scope, refusal } => history::refused(self.statements, scope, refusal, self.rows),
        }
    }

    fn change(&self, bucket: i64, scope: &Scope, change: &Change) -> rusqlite::Result<()> {
        let history = history::Writer { statements: self.statements, scope, bucket, rows: self.rows };
        match change {
            Change::TokensReserved { up_to } => {
                let sql = "UPDATE buckets SET mark = max(mark, ?2) WHERE id = ?1";
                self.run(sql, params![bucket, bits(*up_to)])
            }
            Change::OwnerOpened(record) => self.open_owner(bucket, record),
            Change::OwnerEnded { owner, names, reason, at } => {
                for name in names {
                    history.lock_ended(name, *owner, &LockEnd::WithOwner(*reason), *at)?;
                    self.unlock(bucket, name, *owner)?;
                }
                history.owner_ended(*owner, *reason, *at)?;
                voided::remove(self.statements, bucket, *owner)?;
                let sql = "DELETE FROM owners WHERE bucket = ?1 AND owner = ?2";
                self.run(sql, params![bucket, bits(owner.get())])
            }
            Change::Locked(record) => {
                history.lock_replaced(record)?;
                self.lock(bucket, record)
            }
            Change::Unlocked { name, owner, reason, at, .. } => {
                history.lock_ended(name, *owner, reason, *at)?;
                self.unlock(bucket, name, *owner)
            }
            Change::LocksVoided { owner, which, at } => {
                if let VoidLocks::OfEnded(reason) = which {
                    history.owner_ended(*owner, *reason, *at)?;
                }
                voided::add(self.statements, bucket, *owner, which, *at)
            }
            Change::LocksSwept { owner } => voided::remove(self.statements, bucket, *owner),
            Change::Claimed(record) => self.claim(bucket, record),
            Change::Unclaimed { name, reason, at, .. } => {
                history.claim_ended(name, reason, *at)?;
                self.unclaim(bucket, name)
            }
            Change::Assigned(record) => {
                history.claim_finalized(&record.name, record.since)?;
                self.unclaim(bucket, &record.name)?;
                self.assign(bucket, record)
            }
            Change::Unassigned { name, at, .. } => {
                history.assignment_ended(name, *at)?;
                let sql = "DELETE FROM assignments WHERE bucket = ?1 AND name = ?2";
                self.run(sql, params![bucket, bytes(name)])
            }
        }
    }

    fn open_owner(&self, bucket: i64, it: &OwnerRecord) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO owners (bucket, owner, label, metadata, ttl_ms, since, ends, seal)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (owner, ends) = (bits(it.owner.get()), it.ends.map(wall));
        let (ttl_ms, since, seed) = (bits(it.ttl_ms), wall(it.since), bits(it.seed.0));
        self.run(sql, params![bucket, owner, it.label, it.metadata, ttl_ms, since, ends, seed])
    }

    fn lock(&self, bucket: i64, it: &LockRecord) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO locks (bucket, name, owner, mode, token, since, metadata)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let (owner, since) = (bits(it.owner.get()), wall(it.since));
        let (name, mode, token) = (bytes(&it.name), word(it.mode), number_of(it.token));
        self.run(sql, params![bucket, name, owner, mode, token, since, it.metadata])
    }

    fn unlock(&self, bucket: i64, name: &NameBuf, owner: OwnerId) -> rusqlite::Result<()> {
        let sql = "DELETE FROM locks WHERE bucket = ?1 AND name = ?2 AND owner = ?3";
        self.run(sql, params![bucket, bytes(name), bits(owner.get())])
    }

    fn claim(&self, bucket: i64, it: &ClaimRecord) -> rusqlite::Result<()> {
        let sql =
            "INSERT OR REPLACE INTO claims (bucket, name, claimant, token, ttl_ms, since, seal, metadata)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (name, token, ttl_ms) = (bytes(&it.name), number_of(it.token), bits(it.ttl_ms));
        let (since, seed) = (wall(it.since), bits(it.seed.0));
        self.run(sql, params![bucket, name, it.claimant, token, ttl_ms, since, seed, it.metadata])
    }

    fn unclaim(&self, bucket: i64, name: &NameBuf) -> rusqlite::Result<()> {
        self.run("DELETE FROM claims WHERE bucket = ?1 AND name = ?2", params![bucket, bytes(name)])
    }

    fn assign(&self, bucket: i64, it: &AssignmentRecord) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO assignments (bucket, name, claimant, token, since, seal)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (name, token) = (bytes(&it.name), number_of(it.token));
        self.run(sql, params![bucket, name, it.claimant, token, wall(it.since), bits(it.seed.0)])
    }

    /// The number of the bucket, which is made if it is new.
    fn bucket(&mut self, scope: &Arc<Scope>) -> rusqlite::Result<i64> {
        if let Some((last, bucket)) = &self.last
            && (Arc::ptr_eq(last, scope) || last == scope)
        {
            return Ok(*bucket);
        }
        let key = [&*scope.tenant, &*scope.bucket];
        let file = self.statements.file();
        let mut find = file.prepare_cached("SELECT id FROM buckets WHERE tenant = ?1 AND bucket = ?2")?;
        let bucket = match find.query_row(key, |row| row.get(0)).optional()? {
            Some(bucket) => bucket,
            None => {
                let sql = "INSERT INTO buckets (tenant, bucket) VALUES (?1, ?2)";
                file.prepare_cached(sql)?.insert(key)?
            }
        };
        *self.last = Some((Arc::clone(scope), bucket));
        Ok(bucket)
    }

    fn drop_bucket(&mut self, scope: &Scope) -> rusqlite::Result<()> {
        *self.last = None;
        let sql = "DELETE FROM buckets WHERE tenant = ?1 AND bucket = ?2 RETURNING id";
        let key = [&*scope.tenant, &*scope.bucket];
        let dropped = self.statements.file().prepare_cached(sql)?.query_row(key, |row| row.get(0));
        let Some(bucket): Option<i64> = dropped.optional()? else { return Ok(()) };
        [
            "DELETE FROM owners WHERE bucket = ?1",
            "DELETE FROM locks WHERE bucket = ?1",
            "DELETE FROM claims WHERE bucket = ?1",
            "DELETE FROM assignments WHERE bucket = ?1",
            "DELETE FROM voided WHERE bucket = ?1",
        ]
        .into_iter()
        .try_for_each(|sql| self.run(sql, [bucket]))
    }

    fn raise(&self, mark: &TokenMark) -> rusqlite::Result<()> {
        let up_to = bits(mark.up_to);
        match &mark.of {
            MarkOf::Tenant(tenant) => {
                let sql = "INSERT INTO tenants (tenant, mark) VALUES (?1, ?2)
                           ON CONFLICT (tenant) DO UPDATE SET mark = max(mark, excluded.mark)";
                self.run(sql, params![tenant, up_to])
            }
            MarkOf::Group(group) => {
                let sql = "INSERT INTO floors (tenant_group, mark) VALUES (?1, ?2)
                           ON CONFLICT (tenant_group) DO UPDATE SET mark = max(mark, excluded.mark)";
                self.run(sql, params![group, up_to])
            }
            MarkOf::All => self.run("UPDATE slots SET token_floor = max(token_floor, ?1)", [up_to]),
        }
    }

    fn run(&self, sql: &'static str, params: impl Params) -> rusqlite::Result<()> {
        self.statements.run(sql, params).map(drop)
    }
}
