//! A running server whose disk is full, and then is not any more. The disk is a small one, mounted by the
//! test.

use std::cell::{Cell, RefCell};
use std::fs;
use std::time::Instant;

use lockhouse::remote::connect;

use crate::http::calls::{Answer, Api, Owner, PATIENCE};
use crate::http::places::Folder;
use crate::http::places::mount::Mount;
use crate::process::ServerProcess;

const MIB: usize = 1 << 20;

/// The locks that one client takes, record after record, until it is stopped.
#[derive(Default)]
struct Locking {
    /// The names that were granted.
    granted: RefCell<Vec<String>>,
    is_enough: Cell<bool>,
}

impl Locking {
    async fn run(&self, api: &Api, owner: &Owner) {
        for id in 0.. {
            let answer = api.lock(owner, &id.to_string(), "write").await;
            assert_eq!(answer.status, 201, "{answer:?}");
            self.granted.borrow_mut().push(format!("customer/{id}"));
            if self.is_enough.get() {
                return;
            }
        }
    }
}

/// Asks until there is no answer to be had; returns the problem that comes then.
async fn until_unavailable(api: &Api) -> Answer {
    let begin = Instant::now();
    loop {
        let answer = api.get("locks").await;
        if answer.status != 200 {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "it all fits on a full disk");
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[tokio::test]
async fn on_a_full_disk_durable_calls_are_unavailable_web_locks_go_on_and_space_is_all_it_takes() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, 2 * MIB);
    let file = folder.file("lockhouse.db");
    let mut api = Api::over(ServerProcess::over_file("500ms", file.clone()));
    let connection = connect(api.server.url()).await.unwrap();
    let agent = connection.agent("tab").unwrap();
    let held = agent.locks().request("held").await.unwrap();
    let owner = api.owner("Anna").await;
    let claim = api.claim("seat", "Anna").await.text("token");

    let ballast = folder.fill();
    let locking = Locking::default();
    let mut work = Box::pin(locking.run(&api, &owner));
    // The first that finds no space waits for it, as it is done already but for being kept.
    tokio::select! {
        () = &mut work => panic!("it was not to end"),
        answer = until_unavailable(&api) => assert_eq!(answer.outcome(), (503, "unavailable"), "{answer:?}"),
    }
    let refused = api.lock(&owner, "late", "write").await;
    assert_eq!(refused.outcome(), (503, "unavailable"), "{refused:?}");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1, "{refused:?}");
    let detail = refused.text("detail");
    assert!(detail.contains("no space left") && detail.contains(file.to_str().unwrap()), "{detail}");
    assert_eq!(api.claim("another seat", "Bob").await.outcome(), (503, "unavailable"));
    for _ in 0..20 {
        let lock = agent.locks().request("n").timeout(PATIENCE).await.unwrap();
        assert!(lock.fencing_token() > held.fencing_token());
        lock.release().await.unwrap();
    }
    assert_eq!(api.with_token("renew", "seat", &claim).await.status, 200, "a renewal is never written");

    fs::remove_file(ballast).unwrap();
    locking.is_enough.set(true);
    work.await;
    assert_eq!(api.lock(&owner, "late", "write").await.status, 201);
    locking.granted.borrow_mut().push("customer/late".to_owned());
    let before = sorted(locking.granted.take());
    assert_eq!(sorted(api.locked().await), before);

    // The content of the disk is whole: another server finds all of it, and nothing else.
    held.release().await.unwrap();
    connection.close().await;
    api.restart();
    assert_eq!(sorted(api.locked().await), before);
    assert_eq!(api.with_token("finalize", "seat", &claim).await.status, 200);
}

#[tokio::test]
async fn a_server_killed_on_a_full_disk_has_lost_nothing_that_it_answered() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, 2 * MIB);
    let mut api = Api::over(ServerProcess::over_file("500ms", folder.file("lockhouse.db")));
    let owner = api.owner("Anna").await;
    let ballast = folder.fill();
    let locking = Locking::default();
    tokio::select! {
        () = locking.run(&api, &owner) => panic!("it was not to end"),
        answer = until_unavailable(&api) => assert_eq!(answer.outcome(), (503, "unavailable"), "{answer:?}"),
    }
    api.server.kill();
    fs::remove_file(ballast).unwrap();
    api.restart();
    let mut recovered = sorted(api.locked().await);
    // The one that waited for space was not answered, and may have found some.
    let unanswered = format!("customer/{}", locking.granted.borrow().len());
    recovered.retain(|name| *name != unanswered);
    assert_eq!(recovered, sorted(locking.granted.take()));
    assert_eq!(api.lock(&owner, "last", "write").await.status, 201);
}

#[tokio::test]
async fn a_server_stopped_on_a_full_disk_has_lost_nothing_that_it_answered() {
    let folder = Folder::new();
    let _disk = Mount::disk(&folder, 2 * MIB);
    let mut api = Api::over(ServerProcess::over_file("500ms", folder.file("lockhouse.db")));
    let owner = api.owner("Anna").await;
    let ballast = folder.fill();
    let locking = Locking::default();
    tokio::select! {
        () = locking.run(&api, &owner) => panic!("it was not to end"),
        answer = until_unavailable(&api) => assert_eq!(answer.outcome(), (503, "unavailable"), "{answer:?}"),
    }
    assert!(api.server.terminate(), "it ends by itself");
    fs::remove_file(ballast).unwrap();
    api.restart();
    let mut recovered = sorted(api.locked().await);
    let unanswered = format!("customer/{}", locking.granted.borrow().len());
    recovered.retain(|name| *name != unanswered);
    assert_eq!(recovered, sorted(locking.granted.take()));
}
