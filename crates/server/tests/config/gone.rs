//! The database file that is removed or replaced under a running server.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use lockhouse::NameBuf;
use lockhouse::remote::{ConnectionState, connect};
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

#[tokio::test]
async fn the_end_of_a_holders_session_grants_nothing_once_the_file_is_gone() {
    let folder = folder();
    let server = start(folder.path());
    let url = format!("http://{}", server.address);
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..48 {
        let name = NameBuf::new(&number.to_string()).unwrap();
        let (one, other) = (connect(&url).await.unwrap(), connect(&url).await.unwrap());
        held.push(one.agent("a").unwrap().locks().request(&name).await.unwrap());
        let (agent, asked) = (other.agent("b").unwrap(), name.clone());
        let request = tokio::spawn(async move { agent.locks().request(&asked).await.map(drop) });
        while other.query(Some(&name)).await.unwrap().pending.is_empty() {
            tokio::task::yield_now().await;
        }
        // A session at work takes up a grant also between the step of the server and its own look at it.
        let busy = other.agent("c").unwrap();
        let busy = tokio::spawn(async move { while busy.locks().request("busy").shared().await.is_ok() {} });
        waiting.push((request, busy, other.state(), other));
    }
    fs::remove_file(folder.path().join("live/x.db")).unwrap();
    assert_eq!(tokio::task::spawn_blocking(|| server.ended().0).await.unwrap(), Some(1));
    for (request, busy, mut state, connection) in waiting {
        state.wait_for(|state| *state != ConnectionState::Open).await.unwrap();
        assert!(!request.is_finished(), "a lock was granted while its holder had to believe in it");
        request.abort();
        busy.abort();
        drop(connection);
    }
    assert!(held.iter().all(|guard| guard.loss().is_none()));
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
