//! Files that are no lockhouse database, or not available: the error is one line with advice, and nothing on
//! the disk is changed.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lockhouse_store::{Fatal, SqliteStore, Store, TakeError};
use rusqlite::Connection;

use crate::place::process::{Process, part, report};
use crate::place::writer::{Writer, owner};
use crate::place::{Folder, places};

/// The line with which the file is refused. Checks that nothing was changed.
fn refusal(folder: &Folder, file: &Path) -> String {
    let before = folder.content();
    let line = SqliteStore::open(file).unwrap_err().to_string();
    assert!(folder.content() == before, "{line}");
    assert!(!line.contains('\n'), "{line}");
    // The name of the file may be anything, so the tests replace it by a letter.
    line.replace(&file.display().to_string(), "F")
}

/// A database with a number or two in it, closed.
async fn database(file: &Path) {
    let mut writer = Writer::open(file).await;
    writer.keep_all(1..=200, 1000).await;
    writer.close().await;
}

#[tokio::test]
async fn a_second_server_is_refused_with_the_process_that_has_the_file() {
    const NAME: &str = "files::a_second_server_is_refused_with_the_process_that_has_the_file";
    if let Some(file) = part() {
        let _writer = Writer::open(&file).await;
        report("open");
        // Waits until the test ends the process.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    database(&file).await;
    let mut process = Process::start(NAME, &file);
    assert_eq!(process.hear().as_deref(), Some("open"));
    let line =
        format!("F is in use by another lockhouse (process {}); stop it or name another file", process.id());
    assert_eq!(refusal(&folder, &file), line);
    process.kill();
    let writer = Writer::open(&file).await;
    assert_eq!(writer.found.len(), 200);

    let line = format!(
        "F is in use by another lockhouse (process {}); stop it or name another file",
        std::process::id()
    );
    assert_eq!(SqliteStore::open(&file).unwrap_err().to_string().replace(file.to_str().unwrap(), "F"), line);
    // The attempt did not take the lock from the process that has it either.
    let mut process = Process::start(NAME, &file);
    assert!(!process.end(), "it is in use");
    writer.close().await;
    Writer::open(&file).await.close().await;
}

#[test]
fn what_is_no_database_of_ours_is_refused() {
    let folder = Folder::new();
    let file = folder.file("file");
    for content in ["hello, this is a letter and not a database".repeat(100), "short".to_owned()] {
        fs::write(&file, content).unwrap();
        let line = "F is no lockhouse database (not a database of SQLite at all); name another file";
        assert_eq!(refusal(&folder, &file), line);
    }
    fs::write(&file, "").unwrap();
    let line = "F is no lockhouse database (empty; remove it to have one made there); name another file";
    assert_eq!(refusal(&folder, &file), line);
    let line = "F is no lockhouse database (a folder); name another file";
    assert_eq!(refusal(&folder, folder.path()), line);
}

#[test]
fn a_database_of_another_program_is_refused_and_its_log_stays() {
    let folder = Folder::new();
    let file = folder.file("odd name?immutable=0#%41.db");
    let other = Connection::open(&file).unwrap();
    other.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE a (x); INSERT INTO a VALUES (1)").unwrap();
    let line = "F is no lockhouse database (a database of another program); name another file";
    // While the other program runs, and after it was killed.
    assert_eq!(refusal(&folder, &file), line);
    let copy = folder.file("copy.db");
    fs::copy(&file, &copy).unwrap();
    fs::copy(folder.file("odd name?immutable=0#%41.db-wal"), folder.file("copy.db-wal")).unwrap();
    assert_eq!(refusal(&folder, &copy), line);
    other.execute_batch("INSERT INTO a VALUES (2)").unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_as_it_is() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    database(&file).await;
    let whole = fs::read(&file).unwrap();
    assert!(whole.len() > 100_000, "{}", whole.len());

    let line = |damage: fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(&file, bytes).unwrap();
        refusal(&folder, &file)
    };
    let damages: [fn(&mut Vec<u8>); 3] = [
        |bytes| bytes[40_000..60_000].fill(0xA5),
        |bytes| bytes.truncate(60_000),
        |bytes| bytes[5000..9000].fill(0),
    ];
    for damage in damages {
        let line = line(damage);
        assert!(line.starts_with("F is damaged ("), "{line}");
        let advice = "); restore it from a backup with `lockhouse restore`, or name another file";
        assert!(line.ends_with(advice), "{line}");
    }
    fs::write(&file, &whole).unwrap();
    Writer::open(&file).await.close().await;
}

#[tokio::test]
async fn what_is_repeated_of_a_damaged_file_is_one_short_line() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    database(&file).await;
    let whole = fs::read(&file).unwrap();
    // The text of a table without its end: the rest of it cannot be parsed.
    let statement = b"CREATE TABLE slots";
    let line = |damage: &dyn Fn(&mut [u8])| {
        let mut bytes = whole.clone();
        for at in places(&whole, statement) {
            let length = whole[at..].iter().position(|byte| *byte == b')').unwrap();
            damage(&mut bytes[at..at + length]);
        }
        fs::write(&file, bytes).unwrap();
        refusal(&folder, &file)
    };
    let quoted = line(&|text| text[statement.len()] = b'[');
    assert!(quoted.contains("unrecognized token"), "{quoted}");
    let ends = line(&|text| text[statement.len()..].fill(b'\n'));
    let written = line(&|text| text[statement.len()..][..7].copy_from_slice(b"[\x1B[31m\x07"));
    for line in [quoted, ends, written] {
        assert!(line.starts_with("F is damaged (malformed database schema (slots)"), "{line}");
        assert!(!line.contains(char::is_control) && line.len() < 600, "{line:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_keeps_the_log_of_its_crash() {
    let folder = Folder::new();
    let (file, copy) = (folder.file("lockhouse.db"), folder.file("copy.db"));
    database(&file).await;
    let mut writer = Writer::open(&file).await;
    writer.keep(1000, 10).await.unwrap();
    fs::copy(&file, &copy).unwrap();
    fs::copy(folder.file("lockhouse.db-wal"), folder.file("copy.db-wal")).unwrap();
    writer.close().await;
    let mut bytes = fs::read(&copy).unwrap();
    bytes[40_000..60_000].fill(0xA5);
    fs::write(&copy, bytes).unwrap();
    let line = refusal(&folder, &copy);
    assert!(line.starts_with("F is damaged ("), "{line}");
}

#[tokio::test]
async fn what_contradicts_itself_is_found_when_the_slot_is_taken() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    for harm in [
        "UPDATE locks SET name = x'FF' WHERE owner = 1",
        "UPDATE locks SET token = 0",
        "UPDATE owners SET label = CAST(x'FF' AS TEXT)",
    ] {
        let _ = fs::remove_file(&file);
        let mut writer = Writer::open(&file).await;
        writer.write(vec![lockhouse_core::Change::OwnerOpened(owner(1))]).await.unwrap();
        writer.keep(1, 10).await.unwrap();
        writer.close().await;
        let raw = Connection::open(&file).unwrap();
        raw.execute(harm, []).unwrap();
        drop(raw);
        let Err((store, error)) = Writer::take(SqliteStore::open(&file).unwrap()).await else {
            panic!("{harm} was not found");
        };
        assert!(matches!(error, TakeError::Fatal(Fatal::Damaged { .. })), "{harm}: {error}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    database(&file).await;
    let line = "F has schema version 9, but this lockhouse knows versions up to 6; use a newer lockhouse or name another file";
    let raw = Connection::open(&file).unwrap();
    raw.pragma_update(None, "user_version", 9).unwrap();
    // While the number is in the log alone, as after a crash, and when it is in the file.
    let copy = folder.file("copy.db");
    fs::copy(&file, &copy).unwrap();
    fs::copy(folder.file("lockhouse.db-wal"), folder.file("copy.db-wal")).unwrap();
    drop(raw);
    assert_eq!(refusal(&folder, &file), line);
    assert_eq!(refusal(&folder, &copy), line);
}

#[test]
fn a_folder_that_is_not_there_is_not_made() {
    let folder = Folder::new();
    let file = folder.file("not/there.db");
    let line = format!(
        "F cannot be made, as its folder {} does not exist; make the folder or name another file",
        folder.file("not").display()
    );
    assert_eq!(refusal(&folder, &file), line);
}

#[tokio::test]
async fn no_new_file_is_made_where_the_log_of_another_is_left() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    for log in ["lockhouse.db-wal", "lockhouse.db-journal"] {
        fs::write(folder.file(log), "log").unwrap();
        let line = format!(
            "F{} belongs to a database that is gone; put F back, or move the log away",
            log.strip_prefix("lockhouse.db").unwrap()
        );
        assert_eq!(refusal(&folder, &file), line);
        fs::remove_file(folder.file(log)).unwrap();
    }
}

#[tokio::test]
async fn only_the_owner_of_the_process_may_read_the_file_and_its_log() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    let mut writer = Writer::open(&file).await;
    writer.keep(1, 100).await.unwrap();
    writer.store.backup(folder.file("backup.db")).await.unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["backup.db", "lockhouse.db", "lockhouse.db-wal"]);
    writer.close().await;
    assert_eq!(folder.content().len(), 2, "a closed database is one file");
}

#[tokio::test]
async fn a_link_leads_to_the_file_and_its_log() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let (file, link) = (folder.file("lockhouse.db"), elsewhere.file("link.db"));
    database(&file).await;
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut writer = Writer::open(&link).await;
    writer.keep(201, 10).await.unwrap();
    assert!(folder.file("lockhouse.db-wal").exists());
    assert!(SqliteStore::open(&file).is_err(), "it is one file");
    writer.close().await;
    assert_eq!(Writer::open(&file).await.found.len(), 201);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_name_that_means_something_to_sqlite_is_a_name() {
    let folder = Folder::new();
    for name in [":memory:", "file:x?mode=memory", "a b%20c.db", " "] {
        let file = folder.file(name);
        database(&file).await;
        assert!(file.is_file(), "{name}");
        assert_eq!(Writer::open(&file).await.found.len(), 200);
    }
}
