//! Database files.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::doctor::Found;
use crate::running::{Running, lockhouse, run, run_in_vain};

/// A database with an owner in it, whose server has ended.
fn database(folder: &Path) {
    let server = served(folder);
    assert_eq!(server.terminate().0, Some(0));
}

/// A server over `lockhouse.db` that has an owner, and a claim in its history.
fn served(folder: &Path) -> Running {
    let server = Running::of(lockhouse(folder, &["serve", "--listen", "127.0.0.1:0"]));
    let url = format!("http://{}", server.address);
    let succeed = |arguments: &[&str]| {
        let (code, out, error) = run(&mut lockhouse(folder, &[arguments, &["--url", &url]].concat()));
        assert_eq!(code, Some(0), "{error}");
        out.trim().to_owned()
    };
    succeed(&["owner", "open", "Anna"]);
    let token = succeed(&["claim", "seat/1", "--claimant", "Anna"]);
    succeed(&["release", "seat/1", &token]);
    server
}

/// The files of a folder, with all that a change of them would change.
fn state(folder: &Path) -> Vec<(String, u64, SystemTime, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let (entry, name) = (entry.as_ref().unwrap(), entry.as_ref().unwrap().file_name());
            let metadata = entry.metadata().unwrap();
            let content = fs::read(entry.path()).unwrap();
            (name.into_string().unwrap(), metadata.len(), metadata.modified().unwrap(), content)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_healthy_database_has_no_fault_and_nothing_is_made_or_changed() {
    let folder = tempfile::tempdir().unwrap();
    let found = Found::of(folder.path(), &[]);
    found.is_healthy();
    found.says("database", "is not there; the first start makes it");
    assert!(state(folder.path()).is_empty());

    database(folder.path());
    let before = state(folder.path());
    let found = Found::of(folder.path(), &[]);
    found.is_healthy();
    found.says("database", "is whole");
    found.says("clock of store", "history");
    assert_eq!(state(folder.path()), before);
}

#[test]
fn the_log_that_a_killed_server_leaves_is_read_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    drop(served(folder.path()));
    assert!(fs::metadata(folder.path().join("lockhouse.db-wal")).unwrap().len() > 0);
    let before = state(folder.path());
    let found = Found::of(folder.path(), &[]);
    found.is_healthy();
    found.says("database", "is whole");
    assert_eq!(state(folder.path()), before);
    // What was read was in the log alone.
    found.says("clock of store", "history");
}

#[test]
fn a_running_server_is_no_fault_and_is_asked_where_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path());
    let address = server.address.to_string();
    let url = format!("http://{address}");
    let found = Found::of(folder.path(), &["--listen", &address, "--server", &url]);
    found.is_healthy();
    found.says("database", "is in use by a running server (process ");
    found.says("ports", "in use by a lockhouse");
    found.says("running server", "ready");
    found.says("asked server", "answers");
    // The lock of the server was not lost by the look.
    let mut second = lockhouse(folder.path(), &["serve", "--listen", "127.0.0.1:0"]);
    let (code, _, error) = run_in_vain(&mut second);
    assert_eq!(code, Some(1));
    assert!(error.contains("in use by another lockhouse"), "{error}");
    assert_eq!(server.terminate().0, Some(0));
}

#[test]
fn a_server_that_does_not_answer_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let found = Found::of(folder.path(), &["--server", "http://127.0.0.1:9"]);
    found.has_fault("asked server", "cannot reach");
}

#[test]
fn a_folder_that_is_not_there_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let found = Found::of(folder.path(), &["--store", "sqlite:nowhere/locks.db"]);
    found.has_fault("folder", "nowhere does not exist");
}

#[test]
fn a_file_of_a_newer_version_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    database(folder.path());
    let file = rusqlite::Connection::open(folder.path().join("lockhouse.db")).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    file.close().unwrap();
    Found::of(folder.path(), &[]).has_fault("database", "has schema version 99");
}

#[test]
fn a_backup_and_another_programs_database_are_faults() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path());
    let url = format!("http://{}", server.address);
    let (code, _, error) = run(&mut lockhouse(folder.path(), &["backup", "monday.db", "--url", &url]));
    assert_eq!(code, Some(0), "{error}");
    let found = Found::of(folder.path(), &["--store", "sqlite:monday.db"]);
    found.has_fault("database", "is a backup");

    let file = rusqlite::Connection::open(folder.path().join("other.db")).unwrap();
    file.execute_batch("CREATE TABLE a (x)").unwrap();
    file.close().unwrap();
    let found = Found::of(folder.path(), &["--store", "sqlite:other.db", "--listen", "127.0.0.1:0"]);
    let fault = found.lines("fault").concat();
    assert!(fault.contains("a database of another program"), "{fault}");
}

#[test]
fn a_damaged_file_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    database(folder.path());
    let path = folder.path().join("lockhouse.db");
    let file = File::options().write(true).open(&path).unwrap();
    let pages = file.metadata().unwrap().len() / 1024;
    for page in 1..pages {
        file.write_all_at(&[0xa5; 1024], page * 1024).unwrap();
    }
    file.set_modified(SystemTime::now()).unwrap();
    Found::of(folder.path(), &[]).has_fault("database", "is damaged");
}

#[test]
fn a_clock_behind_the_last_write_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    database(folder.path());
    let file = File::options().write(true).open(folder.path().join("lockhouse.db")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(7200)).unwrap();
    Found::of(folder.path(), &[]).has_fault("clock of store", "behind the last write of the database file");
}

#[test]
fn a_database_that_others_may_read_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    database(folder.path());
    let path = folder.path().join("lockhouse.db");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    Found::of(folder.path(), &[]).has_warning("database file", "has mode 644");
}

#[test]
fn a_look_that_has_no_time_says_so() {
    let folder = tempfile::tempdir().unwrap();
    database(folder.path());
    let mut file = rusqlite::Connection::open(folder.path().join("lockhouse.db")).unwrap();
    // Enough for several looks at the clock.
    let rows = file.transaction().unwrap();
    rows.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
         INSERT INTO history (since, at, tenant, bucket, kind, why)
         SELECT i, i, '', 'b', 'offline', 'released' FROM n",
    )
    .unwrap();
    rows.commit().unwrap();
    file.close().unwrap();
    let found = Found::of(folder.path(), &["--read-for", "0s"]);
    found.has_warning("database", "was not read to its end");
}
