//! The database file that is removed or replaced under a running server.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use lockhouse_server::operator_file;

use crate::running::{Running, lockhouse};

/// By then the server has ended.
const SOON: Duration = Duration::from_secs(1);

fn start(folder: &Path) -> Running {
    let store = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:live/x.db"];
    Running::of(lockhouse(folder, &store))
}

/// A folder with a database in `live`, a link to it, and another database in `other`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["other", "live"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    assert_eq!(start(folder.path()).terminate().0, Some(0));
    fs::rename(folder.path().join("live/x.db"), folder.path().join("other/x.db")).unwrap();
    folder
}

#[test]
fn a_server_ends_within_a_second_once_its_file_is_gone_or_another_one() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm, &str); 5] = [
        ("removed", |path| fs::remove_file(path.join("live/x.db")).unwrap(), "live/x.db"),
        (
            "replaced",
            |path| fs::rename(path.join("other/x.db"), path.join("live/x.db")).unwrap(),
            "live/x.db",
        ),
        ("moved", |path| fs::rename(path.join("live/x.db"), path.join("moved.db")).unwrap(), "live/x.db"),
        (
            "moved with its folder",
            |path| fs::rename(path.join("live"), path.join("away")).unwrap(),
            "live/x.db",
        ),
        ("without its log", |path| fs::remove_file(path.join("live/x.db-wal")).unwrap(), "live/x.db-wal"),
    ];
    for (how, harm, file) in harms {
        let folder = folder();
        let server = start(folder.path());
        harm(folder.path());
        let begin = Instant::now();
        let (code, lines) = server.ended();
        assert!(begin.elapsed() < SOON, "{how}: {:?}", begin.elapsed());
        let said: Vec<_> = lines.iter().filter(|line| line.contains("removed or replaced")).collect();
        assert_eq!((code, said.len()), (Some(1), 1), "{how}: {lines:#?}");
        assert!(said[0].contains(file), "{how}: {lines:#?}");
    }
}

#[tokio::test]
async fn what_is_written_to_a_file_that_is_gone_is_not_answered() {
    let folder = folder();
    let server = start(folder.path());
    let client = reqwest::Client::new();
    let open = || {
        let owners = format!("http://{}/v1/buckets/default/owners", server.address);
        client.post(owners).header("content-type", "application/json").body(r#"{"label": "Anna"}"#).send()
    };
    assert_eq!(open().await.unwrap().status(), 201);
    fs::remove_file(folder.path().join("live/x.db")).unwrap();
    // The server may end meanwhile.
    let answered = open().await.map(|answer| answer.status().as_u16());
    assert!(answered.as_ref().map_or(true, |status| *status >= 500), "{answered:?}");
    assert_eq!(server.ended().0, Some(1));
}

#[test]
fn of_two_servers_for_one_path_the_first_ends_and_leaves_the_second_its_files() {
    let folder = folder();
    let first = start(folder.path());
    fs::rename(folder.path().join("other/x.db"), folder.path().join("live/x.db")).unwrap();
    fs::remove_file(folder.path().join("live/x.db-wal")).unwrap();
    let second = start(folder.path());
    assert_eq!(first.ended().0, Some(1));
    let operator = operator_file(&folder.path().join("live/x.db"));
    assert!(operator.exists() && folder.path().join("live/x.db-wal").exists());
    assert_eq!(second.terminate().0, Some(0));
    assert!(!operator.exists());
}
