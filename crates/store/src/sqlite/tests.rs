//! Tests that need the inside of the store.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, BrokenBy, Change, ClaimEnd, ClaimRecord, FencingToken, Instant, LockEnd, LockRecord,
    Mode, NameBuf, OwnerEnd, OwnerId, OwnerRecord, SecretSeed, VoidLocks,
};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::backup::restore_at;
use super::*;
use crate::{HistoryKind, RefusalRecord, Scope, Write};

/// A file in a folder of its own, which goes with it.
struct File(PathBuf);

impl File {
    fn new(test: &str) -> Self {
        let name = format!("lockhouse-store-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder.join("lockhouse.db"))
    }

    fn raw(&self) -> Connection {
        Connection::open(&self.0).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

fn open(path: &Path, steps: &[&str], history_rows: u32) -> Result<SqliteStore, SqliteOpenError> {
    SqliteStore::open_with(path, steps, HistoryBounds { rows: history_rows, age: None })
}

/// Keeps the changes, some in each batch, and closes the store. Every batch is sent twice, which must not
/// show.
async fn keep(store: SqliteStore, scope: &Arc<Scope>, changes: Vec<Change>) {
    let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut drop).await.unwrap();
    let mut first_seq = 1;
    for some in changes.chunks(50) {
        let write = |change: &Change| Write::Change { scope: Arc::clone(scope), change: change.clone() };
        let writes = some.iter().map(write).collect();
        let batch =
            CommitBatch { slot: Slot::ONLY, epoch: opened.epoch, writer: WriterId(1), first_seq, writes };
        first_seq = batch.last_seq() + 1;
        let batch = Arc::new(batch);
        for _ in 0..2 {
            assert_eq!(store.commit(vec![Arc::clone(&batch)]).await, Ok(vec![CommitOutcome::Committed]));
        }
    }
    store.close().await.unwrap();
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_790_000_000_000 + ms)
}

fn name(text: &str) -> NameBuf {
    NameBuf::new(text).unwrap()
}

fn lock(text: &str, token: u64) -> LockRecord {
    LockRecord {
        name: name(text),
        owner: OwnerId::new(7),
        mode: Mode::Exclusive,
        token: FencingToken::new(token),
        since: at(token),
        metadata: None,
    }
}

fn owner() -> Change {
    Change::OwnerOpened(OwnerRecord {
        owner: OwnerId::new(7),
        label: "Ann".into(),
        metadata: None,
        ttl_ms: 60_000,
        since: at(7),
        ends: None,
        seed: SecretSeed(1),
    })
}

fn claim(token: u64) -> Change {
    Change::Claimed(ClaimRecord {
        name: name("seat/1"),
        claimant: "worker".into(),
        token: FencingToken::new(token),
        ttl_ms: 1000,
        since: at(token),
        seed: SecretSeed(2),
        metadata: None,
    })
}

#[test]
fn every_commit_waits_for_the_disk_and_the_file_belongs_to_one() {
    let file = File::new("pragmas");
    let opened = file::open(&file.0, schema::STEPS).unwrap();
    let pragma =
        |name: &str| -> Value { opened.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap() };
    assert_eq!(pragma("synchronous"), Value::Integer(2), "FULL");
    assert_eq!(pragma("fullfsync"), Value::Integer(1));
    assert_eq!(pragma("checkpoint_fullfsync"), Value::Integer(1));
    assert_eq!(pragma("journal_mode"), Value::Text("wal".into()));
    assert_eq!(pragma("locking_mode"), Value::Text("exclusive".into()));
    assert_eq!(pragma("page_size"), Value::Integer(1024));
}

#[tokio::test]
async fn a_database_with_pages_of_before_serves_and_comes_back_from_its_backup() {
    let file = File::new("pages");
    drop(file::open(&file.0, schema::STEPS).unwrap());
    file.raw().execute_batch("PRAGMA journal_mode = DELETE; PRAGMA page_size = 4096; VACUUM").unwrap();
    let scope = Arc::new(Scope::new("t", "b"));
    // More than the log may have, so that it is moved.
    let changes = (1..=20_000).map(claim).collect();
    keep(open(&file.0, schema::STEPS, 100_000).unwrap(), &scope, changes).await;
    let backup = file.0.with_file_name("backup.db");
    let store = open(&file.0, schema::STEPS, 100_000).unwrap();
    store.backup(backup.clone()).await.unwrap();
    store.close().await.unwrap();
    restore(&backup, &file.0).unwrap();
    let of = |sql: &str| file.raw().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((of("PRAGMA page_size"), of("SELECT token FROM claims")), (4096, 20_000));
    open(&file.0, schema::STEPS, 100_000).unwrap().close().await.unwrap();
}

#[test]
fn transactions_are_serialisable_and_no_other_connection_has_one() {
    let file = File::new("isolation");
    let opened = file::open(&file.0, schema::STEPS).unwrap();
    let pragma =
        |name: &str| -> Value { opened.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap() };
    // Serializable is SQLite's only isolation level unless this pragma is set; moreover no other connection
    // is there.
    assert_eq!(pragma("read_uncommitted"), Value::Integer(0));
    assert_eq!(pragma("locking_mode"), Value::Text("exclusive".into()));
    for sql in ["SELECT count(*) FROM locks", "BEGIN IMMEDIATE"] {
        let raw = file.raw();
        raw.busy_timeout(std::time::Duration::ZERO).unwrap();
        let refused = raw.execute_batch(sql).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy), "{sql}");
    }
}

#[test]
fn the_table_of_locks_has_names_and_owners_and_nothing_of_the_business() {
    let file = File::new("columns");
    drop(file::open(&file.0, schema::STEPS).unwrap());
    let raw = file.raw();
    let columns = |table: &str| -> Vec<String> {
        let mut query = raw.prepare("SELECT name FROM pragma_table_xinfo(?1)").unwrap();
        query.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    // `metadata` is the text that an owner shows to requesters that it excludes.
    let expected = ["bucket", "name", "owner", "mode", "token", "since", "metadata", "name_text"];
    assert_eq!(columns("locks"), expected);
    let expected = ["bucket", "owner", "label", "metadata", "ttl_ms", "since", "ends", "seal"];
    assert_eq!(columns("owners"), expected);
    let mut query = raw.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let expected = [
        "assignments",
        "buckets",
        "claims",
        "floors",
        "history",
        "history_counts",
        "locks",
        "owners",
        "secret",
        "slots",
        "tenants",
        "voided",
    ];
    assert_eq!(tables, expected);
}

#[tokio::test]
async fn the_key_of_the_table_refuses_the_same_lock_twice() {
    let file = File::new("key");
    let scope = Arc::new(Scope::new("t", "b"));
    keep(open(&file.0, schema::STEPS, 100).unwrap(), &scope, vec![owner(), Change::Locked(lock("a", 8))])
        .await;
    let raw = file.raw();
    let again = "INSERT INTO locks SELECT bucket, name, owner, mode, token + 1, since, metadata FROM locks";
    let refused = raw.execute(again, []).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation), "{refused}");
    raw.execute("DELETE FROM locks", []).unwrap();
    assert_eq!(raw.execute(again, []), Ok(0));
}

fn unclaim(token: u64) -> Change {
    let (name, token, at) = (name("seat/1"), FencingToken::new(token), at(token + 1));
    Change::Unclaimed { name, token, reason: ClaimEnd::Released, at }
}

fn broken() -> ClaimEnd {
    ClaimEnd::Broken(BrokenBy { operator: "ops".into(), reason: Some("the hall is closed".into()) })
}

#[tokio::test]
async fn the_history_says_who_held_what_from_when_to_when_and_why() {
    let file = File::new("history");
    let scope = Arc::new(Scope::new("t", "b"));
    let token = FencingToken::new;
    let unlocked = |token, reason, ms| Change::Unlocked {
        name: name("a"),
        owner: OwnerId::new(7),
        token: FencingToken::new(token),
        reason,
        at: at(ms),
    };
    let shared = LockRecord { mode: Mode::Shared, ..lock("a", 8) };
    let assigned = AssignmentRecord {
        name: name("seat/1"),
        claimant: "worker".into(),
        token: token(23),
        since: at(24),
        seed: SecretSeed(2),
    };
    let changes = vec![
        Change::TokensReserved { up_to: 100 },
        owner(),
        Change::Locked(shared),
        unlocked(8, LockEnd::Undone, 9),
        Change::Locked(lock("a", 10)),
        unlocked(10, LockEnd::Stolen, 11),
        Change::Locked(lock("a\0\u{1F511}", 12)),
        Change::Locked(lock("b", 13)),
        Change::OwnerEnded {
            owner: OwnerId::new(7),
            names: vec![name("a\0\u{1F511}"), name("b")],
            reason: OwnerEnd::Overdue,
            at: at(14),
        },
        claim(21),
        Change::Unclaimed { name: name("seat/1"), token: token(21), reason: ClaimEnd::Expired, at: at(22) },
        claim(23),
        Change::Assigned(assigned),
        Change::Unassigned { name: name("seat/1"), token: token(23), at: at(25) },
        claim(26),
        Change::Unclaimed { name: name("seat/1"), token: token(26), reason: broken(), at: at(27) },
        // A lock that never began does not end.
        unlocked(99, LockEnd::Released, 30),
        Change::Unassigned { name: name("seat/1"), token: token(23), at: at(31) },
    ];
    keep(open(&file.0, schema::STEPS, HistoryBounds::DEFAULT.rows).unwrap(), &scope, changes).await;

    let raw = file.raw();
    assert_eq!(
        history_of(&raw),
        [
            "8-9 t b offline (undone) Ann 7 61 shared 8",
            "10-11 t b offline (stolen) Ann 7 61 exclusive 10",
            "12-14 t b offline (owner overdue) Ann 7 6100F09F9491 exclusive 12",
            "13-14 t b offline (owner overdue) Ann 7 62 exclusive 13",
            "7-14 t b owner (overdue) Ann 7 - - -",
            "21-22 t b claim (expired) worker - 736561742F31 - 21",
            "23-24 t b claim (finalized) worker - 736561742F31 - 23",
            "24-25 t b assignment (unassigned) worker - 736561742F31 - 23",
            "26-27 t b claim (broken) worker - 736561742F31 - 26 by ops: the hall is closed",
        ]
    );
}

fn history_of(raw: &Connection) -> Vec<String> {
    let sql =
        "SELECT concat_ws(' ', (since - 1790000000000) || '-' || (at - 1790000000000), tenant, bucket, kind,
                   '(' || why || ')', who, coalesce(owner, '-'), iif(name IS NULL, '-', hex(name)),
                   coalesce(mode, '-'), coalesce(token, '-'), 'by ' || operator || ': ' || reason)
               FROM history ORDER BY seq";
    let mut statement = raw.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn the_history_says_when_an_owner_ended_whose_locks_ended_later() {
    let file = File::new("voided");
    let owner_id = OwnerId::new(7);
    let voided = |which, ms| Change::LocksVoided { owner: owner_id, which, at: at(ms) };
    let unlocked = |text, token, reason, ms| Change::Unlocked {
        name: name(text),
        owner: owner_id,
        token: FencingToken::new(token),
        reason,
        at: at(ms),
    };
    let ended = LockEnd::WithOwner(OwnerEnd::Expired);
    let changes = vec![
        owner(),
        Change::Locked(lock("a", 8)),
        Change::Locked(lock("b", 9)),
        voided(VoidLocks::These(vec![(name("a"), FencingToken::new(8))]), 10),
        voided(VoidLocks::OfEnded(OwnerEnd::Expired), 11),
        unlocked("a", 8, ended.clone(), 12),
        unlocked("b", 9, ended, 13),
        Change::OwnerEnded { owner: owner_id, names: Vec::new(), reason: OwnerEnd::Expired, at: at(13) },
    ];
    keep(
        open(&file.0, schema::STEPS, HistoryBounds::DEFAULT.rows).unwrap(),
        &Arc::new(Scope::new("t", "b")),
        changes,
    )
    .await;
    assert_eq!(
        history_of(&file.raw()),
        [
            "7-11 t b owner (expired) Ann 7 - - -",
            "8-12 t b offline (owner expired) Ann 7 61 exclusive 8",
            "9-13 t b offline (owner expired) Ann 7 62 exclusive 9",
        ]
    );
    let left: i64 = file.raw().query_row("SELECT count(*) FROM voided", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn the_history_keeps_its_newest_rows_and_no_more_than_its_bound() {
    let file = File::new("bound");
    let scope = Arc::new(Scope::new("t", "b"));
    // Several lives, so that the rows of the last one count, too.
    for life in 0..4 {
        let tokens = (1..=600).map(|token| life * 600 + token);
        let changes = tokens.flat_map(|token| [claim(token), unclaim(token)]).collect();
        keep(open(&file.0, schema::STEPS, 100).unwrap(), &scope, changes).await;
        let newest: i64 =
            file.raw().query_row("SELECT max(token) FROM history", [], |row| row.get(0)).unwrap();
        assert_eq!(newest as u64, life * 600 + 600);
        let rows: i64 = file.raw().query_row("SELECT count(*) FROM history", [], |row| row.get(0)).unwrap();
        assert!((100..=1100).contains(&rows), "{rows}");
    }
}

/// Refusals by the thousand, among a few ends, with a bound that is far lower.
#[tokio::test]
async fn refusals_push_no_end_out_of_the_history_and_have_a_bound_of_their_own() {
    let file = File::new("refusals");
    let scope = Arc::new(Scope::new("t", "b"));
    let store = open(&file.0, schema::STEPS, 100).unwrap();
    let Opened { epoch, .. } = store.take_slot(Slot::ONLY, WriterId(1), &mut drop).await.unwrap();
    let change = |change| Write::Change { scope: Arc::clone(&scope), change };
    let refused = |at: u64| {
        let (since, at) = (Instant::from_millis(at), Instant::from_millis(at));
        let (kind, name, who) = (HistoryKind::Claim, NameBuf::new("n").unwrap(), "Bob".into());
        let refusal = RefusalRecord { kind, name, mode: None, who, owner: None, since, at, count: 1 };
        Write::Refused { scope: Arc::clone(&scope), refusal: Box::new(refusal) }
    };
    let mut first_seq = 1;
    for round in 0..60 {
        let mut writes: Vec<_> = (0..50).map(|n| refused(round * 50 + n)).collect();
        if round < 20 {
            writes.extend([change(claim(round + 1)), change(unclaim(round + 1))]);
        }
        let batch = CommitBatch { slot: Slot::ONLY, epoch, writer: WriterId(1), first_seq, writes };
        first_seq = batch.last_seq() + 1;
        assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    }
    store.close().await.unwrap();
    let count = |of: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM history WHERE why {of} 'refused'");
        file.raw().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("<>"), 20);
    assert!((10..=1010).contains(&count("=")), "{}", count("="));
}

/// So many ends.
fn ends(from: u64, count: u64) -> Vec<Change> {
    (from..from + count).flat_map(|token| [claim(token), unclaim(token)]).collect()
}

fn rows(file: &File, which: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM history WHERE {which}");
    file.raw().query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn where_nothing_is_kept_nothing_is_written_and_rows_go_by_their_age() {
    let file = File::new("off");
    let scope = Arc::new(Scope::new("t", "b"));
    keep(open(&file.0, schema::STEPS, 100).unwrap(), &scope, ends(1, 3)).await;
    let off = |age| SqliteStore::open_keeping(&file.0, HistoryBounds { rows: 0, age }).unwrap();
    keep(off(None), &scope, ends(10, 3)).await;
    assert_eq!(rows(&file, "true"), 3);
    file.raw().execute_batch("UPDATE history SET at = 1").unwrap();
    keep(off(HistoryBounds::DEFAULT.age), &scope, ends(20, 3)).await;
    assert_eq!(rows(&file, "true"), 0);
}

/// Ends that are too old, among them refusals, behind others of a time when the clock was wrong.
#[tokio::test]
async fn all_that_is_too_old_is_deleted_with_a_few_commits_also_behind_what_a_wrong_clock_has_dated() {
    let file = File::new("age");
    let scope = Arc::new(Scope::new("t", "b"));
    keep(open(&file.0, schema::STEPS, 10_000).unwrap(), &scope, ends(1, 1)).await;
    let add = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
               INSERT INTO history (tenant, bucket, kind, since, at, why)
               SELECT 't', 'b', 'claim', 1, iif(i <= 1500, 9e15, i), iif(i % 5 = 0, 'refused', 'released') FROM n";
    file.raw().execute_batch(add).unwrap();
    // A few batches.
    keep(SqliteStore::open(&file.0).unwrap(), &scope, ends(10, 100)).await;
    assert_eq!((rows(&file, "at = 9e15"), rows(&file, "at <= 6000")), (1500, 0));
}

/// Adds so many ends, or refusals, with an instant.
fn add_rows(file: &Connection, why: &str, at: &str, count: u32) {
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
               INSERT INTO history (tenant, bucket, kind, since, at, why) SELECT 't', 'b', 'claim', 1, ?2, ?1 FROM n";
    file.execute(sql, rusqlite::params![why, at, count]).unwrap();
}

/// The rows of a time when the clock was far ahead go first, of ends and of refusals.
#[tokio::test]
async fn what_was_added_first_goes_first_whatever_the_clock_said() {
    let file = File::new("ahead");
    let scope = Arc::new(Scope::new("t", "b"));
    keep(open(&file.0, schema::STEPS, 1000).unwrap(), &scope, ends(1, 1)).await;
    for at in ["9000000000000000", "1000"] {
        add_rows(&file.raw(), "released", at, 1000);
        add_rows(&file.raw(), "refused", at, 100);
    }
    keep(open(&file.0, schema::STEPS, 1000).unwrap(), &scope, ends(10, 3)).await;
    assert_eq!(rows(&file, "at = 1000 AND why = 'released'"), 997);
    assert_eq!(rows(&file, "at = 1000 AND why = 'refused'"), 100);
    assert_eq!(rows(&file, "true"), 1100);
}

/// Neither a start nor a commit that follows a failed one looks at all rows.
#[tokio::test]
async fn rows_that_were_counted_once_are_not_counted_again() {
    let file = File::new("counted");
    let scope = Arc::new(Scope::new("t", "b"));
    keep(open(&file.0, schema::STEPS, 1000).unwrap(), &scope, ends(1, 150)).await;
    let counted =
        "UPDATE history_counts SET up_to = (SELECT max(seq) FROM history), ends = 100, refusals = 0";
    file.raw().execute_batch(counted).unwrap();
    keep(open(&file.0, schema::STEPS, 100).unwrap(), &scope, ends(1000, 3)).await;
    assert_eq!(rows(&file, "true"), 150);
    // Where others have deleted rows, there are no more of them than numbers.
    file.raw().execute_batch("DELETE FROM history WHERE seq % 2 = 0 OR seq < 100").unwrap();
    let left = rows(&file, "true");
    assert!(left > 20, "{left}");
    keep(open(&file.0, schema::STEPS, 100).unwrap(), &scope, ends(2000, 3)).await;
    assert_eq!(rows(&file, "true"), left + 3);
}

#[tokio::test]
async fn behind_a_write_that_undoes_the_commit_nothing_more_is_written() {
    let file = File::new("undone");
    let scope = Arc::new(Scope::new("t", "b"));
    let changes = (1..=50).flat_map(|token| [claim(token), unclaim(token)]).collect();
    keep(open(&file.0, schema::STEPS, 100).unwrap(), &scope, changes).await;
    let undo = "CREATE TRIGGER undo BEFORE INSERT ON locks BEGIN SELECT RAISE(ROLLBACK, 'undone'); END";
    file.raw().execute_batch(undo).unwrap();
    let rows =
        || file.raw().query_row("SELECT count(*) FROM history", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = rows();

    // With a bound by which most of the history would go.
    let store = open(&file.0, schema::STEPS, 10).unwrap();
    let Opened { epoch, .. } = store.take_slot(Slot::ONLY, WriterId(1), &mut drop).await.unwrap();
    let write = |change| Write::Change { scope: Arc::clone(&scope), change };
    let writes = vec![write(claim(51)), write(unclaim(51)), write(Change::Locked(lock("a", 52)))];
    let batch = CommitBatch { slot: Slot::ONLY, epoch, writer: WriterId(1), first_seq: 1, writes };
    let failed = store.commit(vec![Arc::new(batch)]).await;
    assert!(matches!(&failed, Err(Fatal::Io { why, .. }) if why.contains("undone")), "{failed:?}");
    store.close().await.unwrap();
    assert_eq!(rows(), before);
}

#[tokio::test]
async fn a_file_of_an_earlier_version_is_brought_up_to_date_and_keeps_what_is_in_it() {
    let file = File::new("migrate");
    let scope = Arc::new(Scope::new("t", "b"));
    keep(open(&file.0, schema::STEPS, 100).unwrap(), &scope, vec![owner(), Change::Locked(lock("a", 8))])
        .await;

    let later = "ALTER TABLE owners ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'";
    let later = [schema::STEPS, &[later]].concat();
    let store = open(&file.0, &later, 100).unwrap();
    let mut recovered = Vec::new();
    let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut |piece| recovered.push(piece)).await.unwrap();
    assert_eq!((opened.epoch, recovered.len()), (2, 3));
    store.close().await.unwrap();
    let colour: String = file.raw().query_row("SELECT colour FROM owners", [], |row| row.get(0)).unwrap();
    assert_eq!(colour, "red");

    let newer = SqliteOpenError::Newer {
        path: file.0.clone(),
        found: schema::version_of(&later),
        known: schema::version_of(schema::STEPS),
    };
    assert_eq!(open(&file.0, schema::STEPS, 100).unwrap_err(), newer);
}

/// A history of beginnings and ends, as files of the fourth version have it.
#[test]
fn the_history_of_an_earlier_version_becomes_one_of_holds() {
    let mut file = Connection::open_in_memory().unwrap();
    schema::migrate(&mut file, &schema::STEPS[..4]).unwrap();
    let begin =
        "INSERT INTO history (at, tenant, bucket, what, event, why, who, owner, name, mode, token) VALUES";
    file.execute_batch(&format!(
        "{begin}
            (1790000000007, 't', 'b', 'owner', 'began', NULL, 'Ann', 7, NULL, NULL, NULL),
            (1790000000008, 't', 'b', 'lock', 'began', NULL, 'Ann', 7, x'61', 'shared', 8),
            (1790000000009, 't', 'b', 'lock', 'began', NULL, 'Ann', 7, x'61', 'exclusive', 9),
            (1790000000010, 't', 'b', 'lock', 'began', NULL, 'Ann', 7, x'61', 'shared', 9),
            (1790000000008, 't', 'c', 'claim', 'began', NULL, 'worker', NULL, x'61', NULL, 9),
            (1790000000011, 't', 'b', 'lock', 'ended', 'stolen', 'Ann', 7, x'61', 'shared', 9),
            (1790000000012, 't', 'c', 'claim', 'ended', 'expired', 'worker', NULL, x'61', NULL, 9),
            (1790000000013, 't', 'b', 'owner', 'ended', 'ended', 'Ann', 7, NULL, NULL, NULL),
            (1790000000014, 't', 'b', 'claim', 'ended', 'released', 'forgotten', NULL, x'61', NULL, 5);"
    ))
    .unwrap();
    schema::migrate(&mut file, schema::STEPS).unwrap();
    assert_eq!(
        history_of(&file),
        [
            "10-11 t b offline (stolen) Ann 7 61 shared 9",
            "8-12 t c claim (expired) worker - 61 - 9",
            "7-13 t b owner (ended) Ann 7 - - -",
            "14-14 t b claim (released) forgotten - 61 - 5",
        ]
    );
}

#[tokio::test]
async fn the_queries_of_the_documentation_run() {
    let file = File::new("queries");
    let scope = Arc::new(Scope::new("t", "b"));
    let customer = LockRecord { name: name("customer/42"), ..lock("", 8) };
    let released = Change::Unlocked {
        name: name("customer/42"),
        owner: OwnerId::new(7),
        token: FencingToken::new(8),
        reason: LockEnd::Released,
        at: at(2008),
    };
    let changes = vec![
        owner(),
        Change::Locked(customer.clone()),
        released,
        Change::Locked(LockRecord { token: FencingToken::new(9), ..customer }),
        claim(10),
    ];
    keep(open(&file.0, schema::STEPS, 100).unwrap(), &scope, changes).await;
    let page = include_str!("../../../../docs/sqlite.md");
    let queries: Vec<&str> =
        page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(queries.len() >= 4);
    let raw = file.raw();
    for (sql, rows) in queries.iter().zip([1, 1, 1, 1]) {
        let mut query = raw.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let found = query.query_map([], |_| Ok(())).unwrap().count();
        assert_eq!(found, rows, "{sql}");
    }
}

/// A life over the file that gives a block of tokens: its epoch, and the token above which it began.
async fn live(path: &Path) -> Opened {
    let store = open(path, schema::STEPS, 100).unwrap();
    let mut above = 0;
    let opened = store
        .take_slot(Slot::ONLY, WriterId(1), &mut |row| {
            if let RecoveredRow::Change { change: Change::TokensReserved { up_to }, .. } = row {
                above = above.max(up_to);
            }
        })
        .await
        .unwrap();
    let above = above.max(opened.token_floor);
    let scope = Arc::new(Scope::new("t", "b"));
    let writes = vec![
        Write::Change {
            scope: Arc::clone(&scope),
            change: Change::TokensReserved { up_to: above + (1 << 20) },
        },
        Write::BucketDropped { scope: Arc::new(Scope::new("t", "other")), mark: None },
    ];
    let batch =
        CommitBatch { slot: Slot::ONLY, epoch: opened.epoch, writer: WriterId(1), first_seq: 1, writes };
    assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    store.close().await.unwrap();
    Opened { token_floor: above, ..opened }
}

#[tokio::test]
async fn tokens_and_epochs_grow_whichever_backup_is_restored_how_often_and_in_the_place_of_what() {
    let file = File::new("leaps");
    let backup = async |name: &str| {
        let to = file.0.with_file_name(name);
        let store = open(&file.0, schema::STEPS, 100).unwrap();
        store.backup(to.clone()).await.unwrap();
        store.close().await.unwrap();
        to
    };
    let mut minutes = 0;
    let mut restore = |from: &Path| {
        minutes += 1;
        let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_790_000_000 + 60 * minutes);
        restore_at(from, &file.0, now).unwrap();
    };
    let damage = || {
        let mut bytes = std::fs::read(&file.0).unwrap();
        bytes[100..].fill(0xA5);
        std::fs::write(&file.0, &bytes).unwrap();
    };

    let mut lives = vec![live(&file.0).await];
    let old = backup("old.db").await;
    lives.push(live(&file.0).await);
    for _ in 0..2 {
        restore(&old);
        lives.push(live(&file.0).await);
    }
    let new = backup("new.db").await;
    lives.push(live(&file.0).await);
    for from in [&new, &old, &new] {
        restore(from);
        lives.push(live(&file.0).await);
    }
    for from in [&old, &old, &new, &new] {
        damage();
        restore(from);
        lives.push(live(&file.0).await);
    }
    for from in [&new, &new] {
        std::fs::remove_file(&file.0).unwrap();
        restore(from);
        lives.push(live(&file.0).await);
    }
    let numbers: Vec<_> = lives.iter().map(|life| (life.token_floor, life.epoch)).collect();
    let grows = |from: (u64, u64), to: (u64, u64)| from.0 < to.0 && from.1 < to.1;
    assert!(numbers.is_sorted_by(|from, to| grows(*from, *to)), "{numbers:?}");
}
