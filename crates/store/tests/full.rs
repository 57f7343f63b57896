//! Failures of the disk: no space, no permission to write, errors. The disk is a small one, mounted by the
//! test.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use lockhouse_store::{
    BackupError, CommitBatch, CommitOutcome, Fatal, SqliteOpenError, SqliteStore, Store, StoreUnavailable,
    TakeError,
};

use crate::place::Folder;
use crate::place::mount::Mount;
use crate::place::process::{Process, part, report};
use crate::place::writer::{PARTS, Writer};

const MIB: usize = 1 << 20;

fn fill(folder: &Folder) -> std::path::PathBuf {
    let ballast = folder.file("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[7; 1024]).is_ok() {}
    ballast
}

#[tokio::test]
async fn a_full_disk_refuses_and_goes_on_by_itself_when_there_is_space_again() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, 4 * MIB);
    let file = folder.file("lockhouse.db");
    let mut writer = Writer::open(&file).await;
    // Space that is freed at the end, however little the database leaves of the disk.
    let spare = folder.file("room");
    fs::write(&spare, vec![7; MIB / 2]).unwrap();
    let mut committed = 0;
    let refusal = loop {
        match writer.keep(committed + 1, 20_000).await.unwrap() {
            CommitOutcome::Committed => committed += 1,
            other => break other,
        }
    };
    let no_space = StoreUnavailable::NoSpace { place: file.display().to_string().into() };
    assert_eq!(refusal, CommitOutcome::Refused(no_space));
    assert!(committed > 5, "{committed}");
    // A smaller batch may fit. A batch that does not fit is refused each time, and nothing is lost by that.
    let ballast = fill(&folder);
    for _ in 0..20 {
        assert!(matches!(writer.keep(committed + 1, 200_000).await, Ok(CommitOutcome::Refused(_))));
    }

    for gone in [ballast, spare] {
        fs::remove_file(gone).unwrap();
    }
    assert_eq!(writer.keep(committed + 1, 100).await, Ok(CommitOutcome::Committed));
    writer.close().await;
    let writer = Writer::open(&file).await;
    assert!(writer.found.keys().copied().eq(1..=committed + 1));
    assert!(writer.found.values().all(|locks| *locks == PARTS));
    writer.close().await;
}

#[tokio::test]
async fn a_log_that_finds_no_space_in_the_file_is_moved_there_when_there_is_space_again() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, 16 * MIB);
    let file = folder.file("lockhouse.db");
    let length = |path: &Path| fs::metadata(path).unwrap().len();
    let mut writer = Writer::open(&file).await;
    let ballast = fill(&folder);
    // The log has its space from the beginning.
    let mut committed = 0;
    while writer.keep(committed + 1, 20_000).await.unwrap() == CommitOutcome::Committed {
        committed += 1;
    }
    assert!(committed * 20_000 > MIB as u64 && length(&file) < MIB as u64, "{committed}");

    fs::remove_file(ballast).unwrap();
    assert_eq!(writer.keep(committed + 1, 20_000).await, Ok(CommitOutcome::Committed));
    // The answer comes when the log has been moved.
    assert!(length(&file) > committed * 20_000);
    assert!(length(&folder.file("lockhouse.db-wal")) < 6 * MIB as u64);
    writer.close().await;
    assert!(Writer::open(&file).await.found.keys().copied().eq(1..=committed + 1));
}

#[tokio::test]
async fn the_log_stays_short_however_much_is_written() {
    let folder = Folder::new();
    let mut writer = Writer::open(&folder.file("lockhouse.db")).await;
    for number in 1..=150 {
        assert_eq!(writer.keep(number, 100_000).await, Ok(CommitOutcome::Committed));
    }
    let length = |name| fs::metadata(folder.file(name)).unwrap().len();
    assert!(length("lockhouse.db") > 10 << 20);
    assert!(length("lockhouse.db-wal") < 6 << 20);
}

#[tokio::test]
async fn on_a_full_disk_a_durable_batch_is_still_reported_as_committed() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, 2 * MIB);
    let mut writer = Writer::open(&folder.file("lockhouse.db")).await;
    let committed = writer.batch(1, 100);
    assert_eq!(writer.keep(1, 100).await, Ok(CommitOutcome::Committed));
    let next = writer.batch(2, 4 * MIB);
    let _ballast = fill(&folder);
    let outcomes = writer.store.commit(vec![committed.clone(), next.clone(), committed]).await.unwrap();
    assert!(
        matches!(
            &outcomes[..],
            [CommitOutcome::Committed, CommitOutcome::Refused(_), CommitOutcome::Committed]
        ),
        "{outcomes:?}"
    );
    let late = CommitBatch { epoch: writer.opened.epoch - 1, ..(*next).clone() };
    let outcomes = writer.store.commit(vec![next, Arc::new(late)]).await.unwrap();
    assert!(matches!(&outcomes[..], [CommitOutcome::Refused(_), CommitOutcome::Fenced]), "{outcomes:?}");
}

#[tokio::test]
async fn a_bucket_that_found_no_space_is_created_with_its_next_change() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, 2 * MIB);
    let file = folder.file("lockhouse.db");
    let mut writer = Writer::open(&file).await;
    let ballast = fill(&folder);
    let refused = writer.keep(1, 4 * MIB).await;
    assert!(matches!(refused, Ok(CommitOutcome::Refused(_))), "{refused:?}");
    fs::remove_file(ballast).unwrap();
    assert_eq!(writer.keep(1, 100).await, Ok(CommitOutcome::Committed));
    writer.close().await;
    let writer = Writer::open(&file).await;
    assert_eq!(writer.found.get(&1), Some(&PARTS));
    writer.close().await;
}

#[tokio::test]
async fn a_slot_is_taken_on_a_full_disk_only_when_there_is_space_again() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, MIB);
    let file = folder.file("lockhouse.db");
    let mut writer = Writer::open(&file).await;
    writer.keep(1, 100).await.unwrap();
    let epoch = writer.opened.epoch;
    writer.close().await;

    let ballast = fill(&folder);
    let store = SqliteStore::open(&file).unwrap();
    let Err((store, refused)) = Writer::take(store).await else { panic!("there is no space") };
    assert!(matches!(refused, TakeError::Unavailable(StoreUnavailable::NoSpace { .. })), "{refused}");
    fs::remove_file(ballast).unwrap();
    let Ok(writer) = Writer::take(store).await else { panic!("there is space") };
    assert_eq!((writer.opened.epoch, writer.found.len()), (epoch + 1, 1));
}

#[tokio::test]
async fn nothing_is_left_of_a_database_or_backup_that_found_no_space() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let _disk = Mount::disk(&folder, MIB);
    fill(&folder);
    let error = SqliteStore::open(folder.file("new.db")).unwrap_err();
    assert_eq!(error, SqliteOpenError::NoSpace { path: folder.file("new.db") });
    let writer = Writer::open(&elsewhere.file("lockhouse.db")).await;
    let backup = writer.store.backup(folder.file("backup.db")).await;
    assert!(matches!(backup, Err(BackupError::NotWritten { .. })), "{backup:?}");
    assert_eq!(folder.content().len(), 1, "only the ballast");
}

#[tokio::test]
async fn a_file_or_folder_that_is_read_only_is_refused_in_one_line() {
    let folder = Folder::new();
    let inner = folder.file("inner");
    fs::create_dir(&inner).unwrap();
    let file = inner.join("lockhouse.db");
    Writer::open(&file).await.close().await;
    let before = fs::read(&file).unwrap();
    let line = format!(
        "{} cannot be written (the file or its folder is read-only, or belongs to somebody else); make both writable or name another file",
        file.display()
    );
    let refused = || SqliteStore::open(&file).unwrap_err().to_string();
    {
        let _file = Mount::read_only(&file);
        assert_eq!(refused(), line, "the file");
    }
    {
        let _file = Mount::same(&file);
        let _folder = Mount::read_only(&inner);
        let new = SqliteStore::open(inner.join("new.db")).unwrap_err();
        assert_eq!(new, SqliteOpenError::ReadOnly { path: inner.join("new.db") });
        assert_eq!(refused(), line, "both");
    }
    {
        let _folder = Mount::read_only(&inner);
        let _file = Mount::same(&file);
        assert_eq!(refused(), line, "the folder");
    }
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
    assert_eq!(Writer::open(&file).await.found.len(), 0);
}

/// A file that must not grow makes every further write an error of the system that is no lack of space.
#[tokio::test]
async fn an_error_of_the_disk_ends_the_store_and_spares_what_is_durable() {
    const NAME: &str = "full::an_error_of_the_disk_ends_the_store_and_spares_what_is_durable";
    if let Some(file) = part() {
        return write_until_fatal(&file).await;
    }
    fail_beyond(2000, NAME).await;
}

/// Here the file grows beyond its bound, when the log is moved into it behind a commit.
#[tokio::test]
async fn an_error_of_the_disk_behind_a_commit_ends_the_store_and_spares_the_commit() {
    const NAME: &str = "full::an_error_of_the_disk_behind_a_commit_ends_the_store_and_spares_the_commit";
    if let Some(file) = part() {
        return write_until_fatal(&file).await;
    }
    let log = fail_beyond(16_000, NAME).await;
    assert!(log < 6 << 20, "it was noticed only when the log was too long: {log}");
}

/// Runs the test as a process whose files may have at most `blocks` blocks of 512 bytes, until the store
/// ends. Checks that all committed numbers are there, and returns the length of the log.
async fn fail_beyond(blocks: u32, test: &str) -> u64 {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    // The signal that comes with the error would end the process first.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut process = Process::start_by(&script, test, &file);
    let committed: u64 = process.hear().unwrap().parse().unwrap();
    assert!(process.end());
    assert!(committed > 5, "{committed}");
    let log = fs::metadata(folder.file("lockhouse.db-wal"));
    let log = log.expect("what such a disk keeps of the file is not known, so the log stays").len();
    let writer = Writer::open(&file).await;
    assert!(writer.found.keys().copied().eq(1..=committed));
    assert!(writer.found.values().all(|locks| *locks == PARTS));
    log
}

async fn write_until_fatal(file: &Path) {
    let mut writer = Writer::open(file).await;
    let mut committed = 0;
    let fatal = loop {
        match writer.keep(committed + 1, 20_000).await {
            Ok(outcome) => assert_eq!(outcome, CommitOutcome::Committed),
            Err(fatal) => break fatal,
        }
        committed += 1;
    };
    assert!(matches!(fatal, Fatal::Io { .. }), "{fatal}");
    let start = format!("{} cannot be written or read any more (", file.display());
    assert!(fatal.to_string().starts_with(&start), "{fatal}");
    assert_eq!(writer.keep(committed + 1, 10).await, Err(fatal), "not even what would fit");
    report(&committed.to_string());
    writer.close().await;
}
