//! Batches turned into the arguments of one statement: an array for each column.

use std::collections::HashSet;
use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, BrokenBy, Change, ClaimEnd, ClaimRecord, LockEnd, LockRecord, OwnerRecord, VoidLocks,
};
use tokio_postgres::types::Type;

use crate::postgres::connection::Param;
use crate::values::held_list;
use crate::values::void_locks::VoidRow;
use crate::values::{bits, bytes, number_of, of_claim, of_lock, of_owner, wall, with_owner, word};
use crate::{CommitBatch, MarkOf, RefusalRecord, Scope, TokenMark, Write};

/// The batches of one commit.
#[derive(Debug, Default)]
pub(crate) struct Sections<'a> {
    slots: Vec<i32>,
    epochs: Vec<i64>,
    writers: Vec<i64>,
    first: Vec<i64>,
    last: Vec<i64>,
    /// How many rows each section has.
    rows: Vec<i32>,
    /// Of each section whether its writes may be carried out together with those of others: in any order they
    /// lead to the same.
    at_once: Vec<bool>,
    tenants: Vec<&'a [u8]>,
    buckets: Vec<&'a [u8]>,
    columns: Columns<'a>,
}

/// The writes: a row for each, and for each lock that ends with its owner.
#[derive(Debug, Default)]
struct Columns<'a> {
    /// Its bucket, from 1; none for a write that is about the slot.
    bucket: Vec<Option<i32>>,
    kind: Vec<&'static str>,
    name: Vec<Option<Bytes<'a>>>,
    owner: Vec<Option<i64>>,
    token: Vec<Option<i64>>,
    length: Vec<Option<i64>>,
    at: Vec<Option<i64>>,
    ends: Vec<Option<i64>>,
    seed: Vec<Option<i64>>,
    who: Vec<Option<&'a [u8]>>,
    metadata: Vec<Option<&'a [u8]>>,
    word: Vec<Option<&'static str>>,
    why: Vec<Option<&'static str>>,
}

/// A name, or the list of names or of held web locks that stands in its place.
type Bytes<'a> = std::borrow::Cow<'a, [u8]>;

/// One row, of which most columns are empty.
#[derive(Debug, Default)]
struct WriteRow<'a> {
    name: Option<Bytes<'a>>,
    owner: Option<i64>,
    token: Option<i64>,
    length: Option<i64>,
    at: Option<i64>,
    ends: Option<i64>,
    seed: Option<i64>,
    who: Option<&'a [u8]>,
    metadata: Option<&'a [u8]>,
    word: Option<&'static str>,
    why: Option<&'static str>,
}

impl<'a> Sections<'a> {
    pub(crate) fn of(batches: &'a [Arc<CommitBatch>]) -> Self {
        let mut sections = Self { at_once: at_once(batches), ..Self::default() };
        for batch in batches {
            let before = sections.columns.kind.len();
            let mut last = None;
            batch.writes.iter().for_each(|write| sections.write(write, &mut last));
            sections.slots.push(batch.slot.get().into());
            sections.epochs.push(bits(batch.epoch));
            sections.writers.push(bits(batch.writer.0));
            sections.first.push(bits(batch.first_seq));
            sections.last.push(bits(batch.last_seq()));
            // A batch is bounded far below.
            sections.rows.push((sections.columns.kind.len() - before) as i32);
        }
        sections
    }

    /// The arguments of the statement, behind the first ones.
    pub(crate) fn params(&self) -> [Param<'_>; 22] {
        let Self { slots, epochs, writers, first, last, rows, at_once, tenants, buckets, columns } = self;
        let Columns { bucket, kind, name, owner, token, length, at, ends, seed, who, metadata, word, why } =
            columns;
        let (int4, int8, text, bytea) =
            (Type::INT4_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::BYTEA_ARRAY);
        [
            (slots, int4.clone()),
            (epochs, int8.clone()),
            (writers, int8.clone()),
            (first, int8.clone()),
            (last, int8.clone()),
            (rows, int4.clone()),
            (at_once, Type::BOOL_ARRAY),
            (tenants, bytea.clone()),
            (buckets, bytea.clone()),
            (bucket, int4),
            (kind, text.clone()),
            (name, bytea.clone()),
            (owner, int8.clone()),
            (token, int8.clone()),
            (length, int8.clone()),
            (at, int8.clone()),
            (ends, int8.clone()),
            (seed, int8),
            (who, bytea.clone()),
            (metadata, bytea),
            (word, text.clone()),
            (why, text),
        ]
    }

    /// `last` is the bucket of the previous write of the section: most are in the same.
    fn write(&mut self, write: &'a Write, last: &mut Option<(&'a Arc<Scope>, i32)>) {
        let none = WriteRow::default();
        match write {
            Write::Change { scope, change } => {
                let bucket = self.bucket(scope, last);
                self.change(bucket, change);
            }
            Write::BucketDropped { scope, mark } => {
                let bucket = self.bucket(scope, last);
                self.columns.push(bucket, "drop", none);
                *last = None;
                mark.iter().for_each(|mark| self.raise(mark));
            }
            Write::MarksReplaced { marks } => {
                self.columns.push(None, "forget marks", none);
                marks.iter().for_each(|mark| self.raise(mark));
            }
            Write::NeedsRecovery { scope } => {
                let bucket = self.bucket(scope, last);
                self.columns.push(bucket, "needs recovery", none);
            }
            Write::LongestLease { ms } => {
                let row = WriteRow { length: Some(bits(*ms)), ..none };
                self.columns.push(None, "longest lease", row);
            }
            Write::RecoveryCompleted => self.columns.push(None, "recovered", none),
            Write::StoppedClean => self.columns.push(None, "stopped clean", none),
            Write::StoppedHolding { held } => {
                let row =
                    WriteRow { name: held.as_ref().map(|held| held_list::to_bytes(held).into()), ..none };
                self.columns.push(None, "stopped holding", row);
            }
            Write::MarkErased => self.columns.push(None, "erase mark", none),
            Write::Refused { scope, refusal } => {
                let bucket = self.bucket(scope, last);
                self.columns.push(bucket, "refused", refused(refusal));
            }
        }
    }

    fn bucket(&mut self, scope: &'a Arc<Scope>, last: &mut Option<(&'a Arc<Scope>, i32)>) -> Option<i32> {
        match last {
            Some((known, index)) if Arc::ptr_eq(known, scope) || *known == scope => Some(*index),
            _ => {
                self.tenants.push(scope.tenant.as_bytes());
                self.buckets.push(scope.bucket.as_bytes());
                let index = self.buckets.len() as i32;
                *last = Some((scope, index));
                Some(index)
            }
        }
    }

    fn raise(&mut self, TokenMark { of, up_to }: &'a TokenMark) {
        let (kind, who) = match of {
            MarkOf::Tenant(tenant) => ("tenant mark", Some(tenant.as_bytes())),
            MarkOf::Group(group) => ("group mark", Some(group.as_bytes())),
            MarkOf::All => ("floor", None),
        };
        self.columns.push(None, kind, WriteRow { who, token: Some(bits(*up_to)), ..WriteRow::default() });
    }

    fn change(&mut self, bucket: Option<i32>, change: &'a Change) {
        let none = WriteRow::default();
        let (kind, row) = match change {
            Change::TokensReserved { up_to } => ("reserve", WriteRow { token: Some(bits(*up_to)), ..none }),
            Change::OwnerOpened(it) => ("owner", opened(it)),
            Change::OwnerEnded { owner, names, reason, at } => {
                let (owner, at) = (Some(bits(owner.get())), Some(wall(*at)));
                for name in names {
                    let (name, why) = (Some(bytes(name).into()), Some(with_owner(*reason)));
                    let row = WriteRow { name, owner, at, why, ..WriteRow::default() };
                    self.columns.push(bucket, "unlock", row);
                }
                ("end owner", WriteRow { owner, at, why: Some(of_owner(*reason)), ..none })
            }
            Change::Locked(it) => ("lock", locked(it)),
            Change::Unlocked { name, owner, reason, at, .. } => {
                let (name, owner) = (Some(bytes(name).into()), Some(bits(owner.get())));
                let said = match reason {
                    LockEnd::Broken(by) => broken(by),
                    _ => none,
                };
                ("unlock", WriteRow { name, owner, at: Some(wall(*at)), why: Some(of_lock(reason)), ..said })
            }
            Change::LocksVoided { owner, which, at } => ("void", voided(which, bits(owner.get()), wall(*at))),
            Change::LocksSwept { owner } => ("sweep", WriteRow { owner: Some(bits(owner.get())), ..none }),
            Change::Claimed(it) => ("claim", claimed(it)),
            Change::Unclaimed { name, reason, at, .. } => {
                let (name, at) = (Some(bytes(name).into()), Some(wall(*at)));
                let said = match reason {
                    ClaimEnd::Broken(by) => broken(by),
                    _ => none,
                };
                ("unclaim", WriteRow { name, at, why: Some(of_claim(reason)), ..said })
            }
            Change::Assigned(it) => ("assign", assigned(it)),
            Change::Unassigned { name, at, .. } => {
                ("unassign", WriteRow { name: Some(bytes(name).into()), at: Some(wall(*at)), ..none })
            }
        };
        self.columns.push(bucket, kind, row);
    }
}

fn refused(it: &RefusalRecord) -> WriteRow<'_> {
    WriteRow {
        name: Some(bytes(&it.name).into()),
        owner: it.owner.map(|owner| bits(owner.get())),
        // The column takes no more.
        length: Some(i64::from(it.count).min(i32::MAX.into())),
        at: Some(wall(it.at)),
        ends: Some(wall(it.since)),
        who: Some(it.who.as_bytes()),
        word: it.mode.map(word),
        why: Some(it.kind.word()),
        ..WriteRow::default()
    }
}

/// Fewer writes are carried out one by one: the statement for many costs more than that for one.
const MANY: usize = 4;

/// Of each section whether all its writes are claims, and ends of claims, of names that come up in none of
/// the sections before it that are carried out along with it.
fn at_once(batches: &[Arc<CommitBatch>]) -> Vec<bool> {
    if batches.iter().map(|batch| batch.writes.len()).sum::<usize>() < MANY {
        return vec![false; batches.len()];
    }
    let mut names = HashSet::new();
    let is_at_once = |batch: &Arc<CommitBatch>| {
        let is_alone = batch.writes.iter().all(|write| match write {
            Write::Change { scope, change } => match change {
                Change::Claimed(ClaimRecord { name, .. }) | Change::Unclaimed { name, .. } => {
                    names.insert((scope.clone(), name.clone()))
                }
                Change::TokensReserved { .. } => true,
                _ => false,
            },
            _ => false,
        });
        if !is_alone {
            // What came before is carried out before it.
            names.clear();
        }
        is_alone
    };
    batches.iter().map(is_at_once).collect()
}

fn broken(by: &BrokenBy) -> WriteRow<'_> {
    WriteRow {
        who: Some(by.operator.as_bytes()),
        metadata: by.reason.as_deref().map(str::as_bytes),
        ..WriteRow::default()
    }
}

fn opened(it: &OwnerRecord) -> WriteRow<'_> {
    WriteRow {
        owner: Some(bits(it.owner.get())),
        who: Some(it.label.as_bytes()),
        metadata: it.metadata.as_deref().map(str::as_bytes),
        length: Some(bits(it.ttl_ms)),
        at: Some(wall(it.since)),
        ends: it.ends.map(wall),
        seed: Some(bits(it.seed.0)),
        ..WriteRow::default()
    }
}

fn locked(it: &LockRecord) -> WriteRow<'_> {
    WriteRow {
        name: Some(bytes(&it.name).into()),
        owner: Some(bits(it.owner.get())),
        word: Some(word(it.mode)),
        token: Some(number_of(it.token)),
        at: Some(wall(it.since)),
        metadata: it.metadata.as_deref().map(str::as_bytes),
        ..WriteRow::default()
    }
}

fn claimed(it: &ClaimRecord) -> WriteRow<'_> {
    WriteRow {
        name: Some(bytes(&it.name).into()),
        who: Some(it.claimant.as_bytes()),
        token: Some(number_of(it.token)),
        length: Some(bits(it.ttl_ms)),
        at: Some(wall(it.since)),
        seed: Some(bits(it.seed.0)),
        metadata: it.metadata.as_deref().map(str::as_bytes),
        ..WriteRow::default()
    }
}

fn assigned(it: &AssignmentRecord) -> WriteRow<'_> {
    WriteRow {
        name: Some(bytes(&it.name).into()),
        who: Some(it.claimant.as_bytes()),
        token: Some(number_of(it.token)),
        at: Some(wall(it.since)),
        seed: Some(bits(it.seed.0)),
        ..WriteRow::default()
    }
}

fn voided(which: &VoidLocks, owner: i64, at: i64) -> WriteRow<'static> {
    let VoidRow { what, why, up_to, names } = VoidRow::of(which);
    WriteRow {
        name: Some(names.into()),
        owner: Some(owner),
        token: up_to,
        at: Some(at),
        word: Some(what),
        why,
        ..WriteRow::default()
    }
}

impl<'a> Columns<'a> {
    fn push(&mut self, bucket: Option<i32>, kind: &'static str, row: WriteRow<'a>) {
        self.bucket.push(bucket);
        self.kind.push(kind);
        self.name.push(row.name);
        self.owner.push(row.owner);
        self.token.push(row.token);
        self.length.push(row.length);
        self.at.push(row.at);
        self.ends.push(row.ends);
        self.seed.push(row.seed);
        self.who.push(row.who);
        self.metadata.push(row.metadata);
        self.word.push(row.word);
        self.why.push(row.why);
    }
}
