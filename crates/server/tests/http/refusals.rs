//! Files that `serve` cannot use: exit 1, one line that says what to do, and nothing on the disk is changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::http::calls::Api;
use crate::http::places::Folder;
use crate::http::places::mount::Mount;
use crate::process::ServerProcess;
use crate::program;

/// The line with which `serve` refuses the file, for which it stands as F. Nothing in the folder is another
/// than before.
fn refusal(folder: &Folder, file: &Path) -> String {
    let before = folder.content();
    let mut command = Command::new(program::lockhouse());
    command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(format!("sqlite:{}", file.display()));
    command.stdin(Stdio::null()).env_remove("RUST_LOG").env_remove("LOCKHOUSE_LISTEN");
    let Output { status, stdout, stderr } = command.output().unwrap();
    traces::leave(&stderr);
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert_eq!(String::from_utf8(stdout).unwrap(), "", "{stderr}");
    assert_eq!(stderr.matches('\n').count(), 1, "{stderr}");
    let mut after = folder.content();
    // An empty log, which says nothing, is left if the process ends before its store is closed.
    after.retain(|(path, bytes)| !(bytes.is_empty() && path.extension() == Some("db-wal".as_ref())));
    let names = |files: &[(PathBuf, Vec<u8>)]| {
        files.iter().map(|(path, bytes)| (path.clone(), bytes.len())).collect::<Vec<_>>()
    };
    assert_eq!(names(&after), names(&before), "{stderr}");
    assert!(after == before, "{stderr}");
    stderr.trim_end().replace(&file.display().to_string(), "F")
}

/// A database with something in it, whose server has ended well.
async fn database(file: &Path) -> Vec<u8> {
    let mut api = Api::over(ServerProcess::over_file("500ms", file.to_owned()));
    let owner = api.owner("Anna").await;
    for id in 0..50 {
        assert_eq!(api.lock(&owner, &id.to_string(), "write").await.status, 201);
    }
    assert!(api.server.terminate());
    fs::read(file).unwrap()
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused_with_its_holder_and_harms_nothing() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    let api = Api::over(ServerProcess::over_file("500ms", file.clone()));
    let owner = api.owner("Anna").await;
    assert_eq!(api.lock(&owner, "1", "write").await.status, 201);
    let line = refusal(&folder, &file);
    assert!(line.contains("F is in use by another lockhouse (process "), "{line}");
    assert!(line.ends_with("); stop it or name another file"), "{line}");
    assert_eq!(api.lock(&owner, "2", "write").await.status, 201);
    assert_eq!(api.locked().await, ["customer/1", "customer/2"]);
}

#[tokio::test]
async fn a_read_only_file_is_refused_and_served_once_it_is_not() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    database(&file).await;
    {
        let _file = Mount::read_only(&file);
        let line = refusal(&folder, &file);
        assert!(line.contains("F cannot be written (the file or its folder is read-only"), "{line}");
        assert!(line.ends_with("make both writable or name another file"), "{line}");
    }
    let api = Api::over(ServerProcess::over_file("500ms", file));
    assert_eq!(api.locked().await.len(), 50);
}

#[tokio::test]
async fn a_damaged_file_a_foreign_one_and_one_of_a_newer_version_are_refused() {
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    let whole = database(&file).await;
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&file, bytes).unwrap();
        refusal(&folder, &file)
    };
    let damaged = refused(&|bytes| bytes[5000..9000].fill(0xA5));
    assert!(damaged.contains("F is damaged ("), "{damaged}");
    assert!(damaged.ends_with("restore it from a backup with `lockhouse restore`, or name another file"));
    let foreign = refused(&|bytes| *bytes = b"this is a letter and no database\n".repeat(300));
    assert!(foreign.contains("F is no lockhouse database (not a database of SQLite at all)"), "{foreign}");
    assert!(foreign.ends_with("; name another file"), "{foreign}");
    // The file format of SQLite: the application's id stands at 68, the user's version at 60.
    let other = refused(&|bytes| bytes[68..72].fill(1));
    assert!(other.contains("F is no lockhouse database (a database of another program)"), "{other}");
    let newer = refused(&|bytes| bytes[60..64].copy_from_slice(&[0, 0, 0, 99]));
    assert!(newer.contains("F has schema version 99, but this lockhouse knows versions up to "), "{newer}");
    assert!(newer.ends_with("use a newer lockhouse or name another file"), "{newer}");

    fs::write(&file, whole).unwrap();
    let api = Api::over(ServerProcess::over_file("500ms", file));
    assert_eq!(api.locked().await.len(), 50);
}

#[tokio::test]
async fn a_server_that_finds_no_space_at_its_start_says_so_and_spares_the_file() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, 1 << 20);
    let file = folder.file("lockhouse.db");
    database(&file).await;
    let ballast = folder.fill();
    let line = refusal(&folder, &file);
    assert!(line.contains("no space left to write F"), "{line}");
    fs::remove_file(ballast).unwrap();
    let api = Api::over(ServerProcess::over_file("500ms", file));
    assert_eq!(api.locked().await.len(), 50);
}
