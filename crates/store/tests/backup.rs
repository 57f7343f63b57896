//! The backup of a running store, and its restore.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockhouse_core::Change;
use lockhouse_store::{
    BackupError, CommitBatch, CommitOutcome, MarkOf, MemoryStore, RecoveredRow, RestoreError, Restored,
    Scope, Slot, SqliteOpenError, SqliteStore, Store, TokenMark, Write, WriterId, restore,
};
use rusqlite::Connection;

use crate::place::writer::{PARTS, Writer, lock};
use crate::place::{Folder, places};

/// More than was given before, and less than the clock tells.
const LEAP: u64 = 1 << 47;

/// Restores the backup, and says where the former database is.
fn kept_aside(backup: &Path, file: &Path) -> Option<PathBuf> {
    restore(backup, file).unwrap().kept_aside
}

async fn database(file: &Path, numbers: u64) -> Writer {
    let mut writer = Writer::open(file).await;
    writer.write(vec![Change::TokensReserved { up_to: 5000 }]).await.unwrap();
    writer.keep_all(1..=numbers, 1000).await;
    writer
}

#[tokio::test]
async fn a_backup_is_whole_while_commits_go_on_beside_it() {
    let folder = Folder::new();
    let writer = database(&folder.file("lockhouse.db"), 3000).await;
    let mut batches = batches(&writer);
    // All other calls are made while the store is busy with the first, so the commits behind the backup
    // happen when only the first of its pages are written.
    let busy = writer.store.commit(batches.by_ref().take(300).collect());
    let backup = writer.store.backup(folder.file("backup.db"));
    let one = writer.store.commit(batches.by_ref().take(1).collect());
    let some = writer.store.commit(batches.by_ref().take(50).collect());
    let more = writer.store.commit(batches.by_ref().take(50).collect());
    let (busy, backup, one, some, more) = tokio::join!(busy, backup, one, some, more);
    backup.unwrap();
    let outcomes = [busy, one, some, more].map(Result::unwrap).concat();
    assert_eq!(outcomes, vec![CommitOutcome::Committed; 401]);
    writer.close().await;

    restore(folder.file("backup.db"), folder.file("restored.db")).unwrap();
    let restored = Writer::open(&folder.file("restored.db")).await;
    assert!(restored.found.keys().copied().eq(1..=3401), "{} of 3401", restored.found.len());
    assert!(restored.found.values().all(|locks| *locks == PARTS), "a batch is there in part");
}

/// Batches that continue from the writer's last number.
fn batches(writer: &Writer) -> impl Iterator<Item = Arc<CommitBatch>> + use<> {
    let (epoch, first) = (writer.opened.epoch, 2 + 3000 * PARTS);
    let scope = Arc::new(Scope::new("t", "b"));
    (0..).map(move |n| {
        let write = |part| Write::Change {
            scope: Arc::clone(&scope),
            change: Change::Locked(lock(3001 + n, part, 1000)),
        };
        let writes = (0..PARTS).map(write).collect();
        Arc::new(CommitBatch {
            slot: Slot::ONLY,
            epoch,
            writer: WriterId(1),
            first_seq: first + n * PARTS,
            writes,
        })
    })
}

#[tokio::test]
async fn a_backup_is_one_file_that_must_be_restored_first() {
    let folder = Folder::new();
    let writer = database(&folder.file("lockhouse.db"), 10).await;
    let backup = folder.file("backup.db");
    writer.store.backup(backup.clone()).await.unwrap();
    let again = writer.store.backup(backup.clone()).await;
    assert_eq!(again, Err(BackupError::Exists(backup.clone())));
    for nowhere in [folder.file("not/there.db"), backup.join("there.db")] {
        let refused = writer.store.backup(nowhere.clone()).await;
        assert_eq!(refused, Err(BackupError::NoFolder(nowhere)));
    }
    writer.close().await;

    assert_eq!(SqliteStore::open(&backup).unwrap_err(), SqliteOpenError::Backup { path: backup.clone() });
    let raw = Connection::open_with_flags(&backup, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let locks: u64 =
        raw.query_row("SELECT count(*) FROM locks", [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    assert_eq!(locks, 10 * PARTS, "it can be read as it is");
    assert_eq!(folder.content().len(), 2, "no log, no draft");

    let memory = MemoryStore::new().unwrap().backup(folder.file("memory.db")).await;
    assert!(matches!(memory, Err(BackupError::Unsupported(..))));
}

#[tokio::test]
async fn a_restore_leaps_over_whatever_was_given_out_after_the_backup() {
    let folder = Folder::new();
    let (file, backup) = (folder.file("lockhouse.db"), folder.file("backup.db"));
    let mut writer = database(&file, 10).await;
    let other = Arc::new(Scope::new("t", "dropped"));
    let extra = [
        Write::Change { scope: Arc::clone(&other), change: Change::TokensReserved { up_to: 70_000 } },
        Write::BucketDropped {
            scope: other,
            mark: Some(TokenMark { of: MarkOf::Tenant("t".into()), up_to: 70_000 }),
        },
        Write::LongestLease { ms: 12_000 },
        Write::MarkErased,
    ];
    let batch = CommitBatch {
        slot: Slot::ONLY,
        epoch: writer.opened.epoch,
        writer: WriterId(1),
        first_seq: 2 + 10 * PARTS,
        writes: extra.to_vec(),
    };
    assert_eq!(writer.store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    writer.store.backup(backup.clone()).await.unwrap();
    let before = writer.opened.clone();
    // Holders of leases that the backup does not know of come back, too.
    let batch = CommitBatch {
        slot: Slot::ONLY,
        epoch: writer.opened.epoch,
        writer: WriterId(1),
        first_seq: 2 + 10 * PARTS + extra.len() as u64,
        writes: vec![Write::LongestLease { ms: 15_000 }],
    };
    assert_eq!(writer.store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    writer.close().await;
    let original = fs::read(&backup).unwrap();

    let Restored { kept_aside, above } = restore(&backup, &file).unwrap();
    assert_eq!(kept_aside, Some(folder.file("lockhouse.db.before-restore-1")));
    assert!(above.mark > 70_000 + LEAP && above.epoch > before.epoch + LEAP, "{above:?}");
    assert_eq!(fs::read(&backup).unwrap(), original);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    writer = Writer::open(&file).await;
    let opened = &writer.opened;
    assert_eq!((opened.epoch, opened.token_floor), (above.epoch + 1, above.mark));
    assert_eq!(opened.key, before.key);
    assert!(opened.restored && !opened.clean);
    assert!(opened.recovers(false), "even a bucket that nothing is kept of");
    assert!(opened.tickets_since <= before.epoch, "holders from before come back with their tickets");
    assert_eq!(opened.longest_lease_ms, 15_000);
    // The floor is as high for the tenant, whose own mark is gone.
    assert!(matches!(&writer.recovered[0], RecoveredRow::Bucket { needs_recovery: true, .. }));
    // The bucket may have been dropped since, and have begun anew above the other bucket's mark.
    let mark = Change::TokensReserved { up_to: above.mark };
    assert!(matches!(&writer.recovered[1], RecoveredRow::Change { change, .. } if *change == mark));
    assert_eq!(writer.found.len(), 10);

    // The store counts as restored until a recovery is completed.
    writer.close().await;
    let writer = Writer::open(&file).await;
    assert!(writer.opened.restored);
    let done = CommitBatch {
        slot: Slot::ONLY,
        epoch: writer.opened.epoch,
        writer: WriterId(1),
        first_seq: 1,
        writes: vec![Write::RecoveryCompleted],
    };
    assert_eq!(writer.store.commit(vec![Arc::new(done)]).await, Ok(vec![CommitOutcome::Committed]));
    writer.close().await;
    let writer = Writer::open(&file).await;
    assert!(!writer.opened.restored && !writer.opened.recovers(false));
    assert_eq!(writer.opened.token_floor, above.mark);
}

#[tokio::test]
async fn the_former_database_is_kept_aside_whole_each_time() {
    let folder = Folder::new();
    let (file, backup) = (folder.file("lockhouse.db"), folder.file("backup.db"));
    let writer = database(&file, 10).await;
    writer.store.backup(backup.clone()).await.unwrap();
    writer.close().await;
    let mut writer = Writer::open(&file).await;
    writer.keep(11, 10).await.unwrap();
    // As a crash leaves it: the last commit is in the log alone.
    let crashed = folder.file("crashed.db");
    fs::copy(&file, &crashed).unwrap();
    fs::copy(folder.file("lockhouse.db-wal"), folder.file("crashed.db-wal")).unwrap();
    writer.close().await;

    for count in 1..=3 {
        let aside = restore(&backup, &crashed).unwrap().kept_aside.unwrap();
        assert_eq!(aside, folder.file(&format!("crashed.db.before-restore-{count}")));
        assert!(!folder.file("crashed.db-wal").exists(), "it would be taken for the new one's");
        let former = Writer::open(&aside).await;
        assert_eq!(former.found.len(), if count == 1 { 11 } else { 10 });
        former.close().await;
        let now = Writer::open(&crashed).await;
        assert_eq!(now.found.len(), 10);
        now.close().await;
    }
}

#[tokio::test]
async fn a_damaged_database_gives_way_to_its_backup_and_is_kept_aside_as_it_is() {
    let folder = Folder::new();
    let (file, backup) = (folder.file("lockhouse.db"), folder.file("backup.db"));
    let mut writer = database(&file, 200).await;
    writer.store.backup(backup.clone()).await.unwrap();
    writer.keep(201, 10).await.unwrap();
    let log = fs::read(folder.file("lockhouse.db-wal")).unwrap();
    writer.close().await;
    let mut bytes = fs::read(&file).unwrap();
    // All but the header of the file: neither the file nor its log can be read any more.
    bytes[100..].fill(0xA5);
    fs::write(&file, &bytes).unwrap();
    fs::write(folder.file("lockhouse.db-wal"), &log[..log.len() / 2]).unwrap();

    let aside = restore(&backup, &file).unwrap().kept_aside.unwrap();
    assert!(fs::read(&aside).unwrap() == bytes, "changed on its way");
    let log_aside = fs::read(folder.file("lockhouse.db.before-restore-1-wal")).unwrap();
    assert!(log_aside == log[..log.len() / 2], "changed on its way");
    assert!(!folder.file("lockhouse.db-wal").exists(), "it would be taken for the new one's");
    assert_eq!(Writer::open(&file).await.found.len(), 200);
}

#[tokio::test]
async fn the_logs_of_a_database_that_is_gone_are_kept_aside_and_nothing_of_them_comes_back() {
    let folder = Folder::new();
    let (file, backup, gone) =
        (folder.file("lockhouse.db"), folder.file("backup.db"), folder.file("gone.db"));
    let mut writer = database(&file, 10).await;
    writer.store.backup(backup.clone()).await.unwrap();
    writer.keep(11, 10).await.unwrap();
    let mut epoch = writer.opened.epoch;
    // As a crash and a removal of the database leave it: whole commits are in the log.
    let log = fs::read(folder.file("lockhouse.db-wal")).unwrap();
    writer.close().await;

    for count in 1..=2 {
        let aside = |suffix: &str| folder.file(&format!("gone.db.before-restore-{count}{suffix}"));
        fs::write(folder.file("gone.db-wal"), &log).unwrap();
        fs::write(folder.file("gone.db-journal"), "a journal").unwrap();
        let Restored { kept_aside, above } = restore(&backup, &gone).unwrap();
        assert_eq!(kept_aside, Some(aside("-wal")));
        assert!(fs::read(aside("-wal")).unwrap() == log, "changed on its way");
        assert_eq!(fs::read(aside("-journal")).unwrap(), b"a journal");
        let writer = Writer::open(&gone).await;
        assert_eq!((writer.opened.epoch, writer.found.len()), (above.epoch + 1, 10));
        assert!(above.epoch > epoch, "{above:?}");
        epoch = writer.opened.epoch;
        writer.close().await;
        fs::remove_file(&gone).unwrap();
    }
    fs::write(folder.file("gone.db-journal"), "a journal").unwrap();
    let journal = folder.file("gone.db.before-restore-3-journal");
    assert_eq!(kept_aside(&backup, &gone), Some(journal));
    // A database is not moved beside the log of another one either.
    let former = folder.file("gone.db.before-restore-4");
    assert_eq!(kept_aside(&backup, &gone), Some(former.clone()));
    assert_eq!(Writer::open(&former).await.found.len(), 10);
}

#[tokio::test]
async fn a_restore_through_a_link_restores_what_it_points_to() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let (file, backup) = (elsewhere.file("lockhouse.db"), folder.file("backup.db"));
    let link = folder.file("link.db");
    let mut writer = database(&file, 10).await;
    writer.store.backup(backup.clone()).await.unwrap();
    writer.keep(11, 10).await.unwrap();
    let log = fs::read(elsewhere.file("lockhouse.db-wal")).unwrap();
    writer.close().await;
    // An unreadable database is moved unchanged, with the log beside it.
    let mut bytes = fs::read(&file).unwrap();
    bytes[100..].fill(0xA5);
    fs::write(&file, &bytes).unwrap();
    fs::write(elsewhere.file("lockhouse.db-wal"), &log[..log.len() / 2]).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();

    let aside = elsewhere.file("lockhouse.db.before-restore-1");
    assert_eq!(kept_aside(&backup, &link), Some(aside.clone()));
    assert!(link.is_symlink() && aside.is_file() && !aside.is_symlink());
    assert!(elsewhere.file("lockhouse.db.before-restore-1-wal").exists());
    assert!(!elsewhere.file("lockhouse.db-wal").exists(), "it would be taken for the new one's");
    for name in [&link, &file] {
        let writer = Writer::open(name).await;
        assert_eq!(writer.found.len(), 10);
        writer.close().await;
    }
}

#[tokio::test]
async fn a_link_to_a_database_that_is_not_there_stands_for_it_all_the_same() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let (file, backup) = (elsewhere.file("lockhouse.db"), folder.file("backup.db"));
    let (link, to_link) = (folder.file("link.db"), folder.file("link-to-link.db"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    std::os::unix::fs::symlink("link.db", &to_link).unwrap();
    let mut writer = Writer::open(&to_link).await;
    writer.keep(1, 10).await.unwrap();
    writer.store.backup(backup.clone()).await.unwrap();
    writer.close().await;
    assert!(file.is_file() && to_link.is_symlink() && link.is_symlink());

    // The log is left, and the database is gone.
    fs::remove_file(&file).unwrap();
    fs::write(elsewhere.file("lockhouse.db-wal"), "of the one that is gone").unwrap();
    let log = elsewhere.file("lockhouse.db-wal");
    assert_eq!(SqliteStore::open(&to_link).unwrap_err(), SqliteOpenError::Orphan { path: file.clone(), log });
    let aside = elsewhere.file("lockhouse.db.before-restore-1-wal");
    assert_eq!(kept_aside(&backup, &to_link), Some(aside));
    assert!(file.is_file() && to_link.is_symlink());
}

#[tokio::test]
async fn a_restore_that_cannot_be_done_changes_nothing() {
    let folder = Folder::new();
    let (file, backup) = (folder.file("lockhouse.db"), folder.file("backup.db"));
    let writer = database(&file, 200).await;
    writer.store.backup(backup.clone()).await.unwrap();
    let line = |from: &Path, to: &Path| {
        let error = restore(from, to).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error.replace(folder.path().to_str().unwrap(), "D")
    };
    let refused = |from: &Path, to: &Path| {
        let before = folder.content();
        let line = line(from, to);
        assert!(folder.content() == before, "{line}");
        line
    };

    let pid = std::process::id();
    // Reading the files here would end their locks: a POSIX lock ends when its process first closes the file.
    let in_use = format!("D/lockhouse.db is in use by another lockhouse (process {pid}); stop it first");
    assert_eq!(line(&backup, &file), in_use);
    let running = "D/lockhouse.db cannot be restored: a lockhouse is running on it; name another backup";
    assert_eq!(line(&file, &folder.file("new.db")), running);
    assert!(!folder.file("new.db").exists());
    writer.close().await;

    assert_eq!(refused(&file, &file), "D/lockhouse.db is the database itself; name a backup of it");
    let line = "D/none.db cannot be restored: No such file or directory (os error 2); name another backup";
    assert_eq!(refused(&folder.file("none.db"), &file), line);
    fs::write(folder.file("letter"), "dear reader".repeat(1000)).unwrap();
    let line = refused(&folder.file("letter"), &file);
    assert!(line.starts_with("D/letter cannot be restored: "), "{line}");
    let line = "D/letter is no lockhouse database (not a database of SQLite at all); move it away first";
    assert_eq!(refused(&backup, &folder.file("letter")), line);
    Connection::open(folder.file("else.db")).unwrap().execute_batch("CREATE TABLE a (x)").unwrap();
    let line = "D/else.db cannot be restored: it is no backup of lockhouse; name another backup";
    assert_eq!(refused(&folder.file("else.db"), &file), line);
    let line = "D/else.db is no lockhouse database (a database of another program); move it away first";
    assert_eq!(refused(&backup, &folder.file("else.db")), line);

    let mut damaged = fs::read(&backup).unwrap();
    damaged[40_000..60_000].fill(0xA5);
    fs::write(folder.file("damaged.db"), damaged).unwrap();
    let line = refused(&folder.file("damaged.db"), &file);
    assert!(line.starts_with("D/damaged.db cannot be restored: it is damaged ("), "{line}");
    // A statement that cannot be parsed, and one that is gone: the error is one line, and its advice fits.
    let mut malformed = fs::read(&backup).unwrap();
    let statement = b"CREATE TABLE tenants";
    for at in places(&malformed, statement) {
        malformed[at + statement.len()] = b'[';
    }
    fs::write(folder.file("malformed.db"), malformed).unwrap();
    let line = refused(&folder.file("malformed.db"), &file);
    let expected = "D/malformed.db cannot be restored: it is damaged (malformed database schema (tenants) - ";
    assert!(line.starts_with(expected) && line.ends_with("); name another backup"), "{line}");
    let partial = folder.file("partial.db");
    fs::copy(&backup, &partial).unwrap();
    Connection::open(&partial).unwrap().execute_batch("DROP TABLE tenants").unwrap();
    let line = refused(&partial, &file);
    let expected = "D/partial.db cannot be restored: no such table: tenants, SQLite's 1; name another backup";
    assert_eq!(line, expected);
    fs::copy(&backup, folder.file("newer.db")).unwrap();
    Connection::open(folder.file("newer.db")).unwrap().pragma_update(None, "user_version", 9).unwrap();
    let line = "D/newer.db cannot be restored: it has schema version 9, but this lockhouse knows versions up to 6; name another backup";
    assert_eq!(refused(&folder.file("newer.db"), &file), line);
    let used_up = folder.file("used-up.db");
    fs::copy(&backup, &used_up).unwrap();
    Connection::open(&used_up)
        .unwrap()
        .execute("UPDATE buckets SET mark = ?1", [(1_i64 << 53) - 100])
        .unwrap();
    let line = refused(&used_up, &file);
    let expected = "D/used-up.db cannot be restored: fencing tokens would go on above 9147936743096220, but they end at 2^53; set the clock of this machine if it is wrong, or begin with a new database";
    assert_eq!(line, expected);
    assert!(matches!(restore(&backup, folder.file("no/x.db")), Err(RestoreError::NotWritten { .. })));
    assert_eq!(Writer::open(&file).await.found.len(), 200);
}
