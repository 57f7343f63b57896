//! Real servers over a database file that are killed, or stopped, and started anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse::remote::{Connection, connect};
use lockhouse::store::SqliteStore;
use lockhouse::{
    Agent, HolderKind, House, LockGuard, LockType, Loss, NameBuf, Options, RecordKind, RequestError,
};

use crate::process::ServerProcess;

/// The lease of the servers, and so how long they recover.
const LEASE: &str = "3s";
const RECOVERY: Duration = Duration::from_secs(3);
/// Half of the recovery: a grant that waits for the end of the recovery has not come by then.
const WHILE: Duration = Duration::from_millis(1_500);

async fn client(server: &ServerProcess) -> (Connection, Agent) {
    let connection = connect(server.url()).await.unwrap();
    let agent = connection.agent("a").unwrap();
    (connection, agent)
}

/// Waits until the server knows of so many locks and requests of that name.
async fn until_known(connection: &Connection, name: &str, wanted: (usize, usize)) {
    let name = NameBuf::new(name).unwrap();
    loop {
        let snapshot = connection.query(Some(&name)).await.unwrap();
        let of_name = |list: &[lockhouse::LockInfo]| list.iter().filter(|info| info.name == name).count();
        if (of_name(&snapshot.held), of_name(&snapshot.pending)) == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_held(lock: &LockGuard, token: u64) {
    assert_eq!((lock.loss(), lock.fencing_token().get()), (None, token));
}

#[tokio::test]
async fn after_kill_9_the_holder_keeps_its_lock_and_the_waiter_gets_it_after_the_release() {
    let mut server = ServerProcess::with_file(LEASE);
    let (holding, holder) = client(&server).await;
    let (waiting, waiter) = client(&server).await;
    let held = holder.locks().request("n").await.unwrap();
    let shared = || async { holder.locks().request("s").shared().await.unwrap() };
    let shared = [shared().await, shared().await];
    let tokens = [&held, &shared[0], &shared[1]].map(|lock| lock.fencing_token().get());
    let locks = waiter.locks().clone();
    let next = tokio::spawn(async move { locks.request("n").await });
    until_known(&holding, "n", (1, 1)).await;
    server.restart();
    let restarted = Instant::now();
    until_known(&waiting, "s", (2, 0)).await;
    until_known(&waiting, "n", (1, 1)).await;
    // While the server recovers, no other client is granted a lock.
    let free = waiter.locks().request("free").await.unwrap();
    assert!(restarted.elapsed() > WHILE, "granted after {:?}", restarted.elapsed());
    assert!(free.fencing_token().get() > tokens[2]);
    is_held(&held, tokens[0]);
    is_held(&shared[0], tokens[1]);
    is_held(&shared[1], tokens[2]);
    assert!(!next.is_finished());
    assert_eq!(held.release().await, Ok(()));
    let next = next.await.unwrap().unwrap();
    assert!(next.fencing_token() > free.fencing_token());
    for lock in shared {
        assert_eq!(lock.release().await, Ok(()));
    }
}

#[tokio::test]
async fn while_the_server_recovers_only_a_steal_is_granted() {
    let mut server = ServerProcess::with_file(LEASE);
    let (connection, agent) = client(&server).await;
    let held = agent.locks().request("held").await.unwrap();
    server.restart();
    let restarted = Instant::now();
    until_known(&connection, "held", (1, 0)).await;
    let stolen = agent.locks().request("free").steal().await.unwrap();
    let stolen_held = agent.locks().request("held").steal().await.unwrap();
    assert_eq!(held.lost().await, Loss::Stolen);
    assert!(restarted.elapsed() < RECOVERY, "too late to tell: {:?}", restarted.elapsed());
    // Neither is answered at once: a holder may still come back for either.
    let if_available = agent.locks().request("other").if_available();
    let taken = agent.locks().request("held").if_available();
    let (if_available, taken) = tokio::join!(if_available, taken);
    assert!(restarted.elapsed() > WHILE, "answered after {:?}", restarted.elapsed());
    assert!(if_available.is_ok());
    let Err(RequestError::Unavailable(unavailable)) = taken else { panic!("{taken:?}") };
    assert_eq!(unavailable.holders.len(), 1);
    assert_eq!((stolen.loss(), stolen_held.loss()), (None, None));
}

#[tokio::test]
async fn two_restarts_in_a_row_leave_the_lock_with_its_holder() {
    let mut server = ServerProcess::with_file("10s");
    let (connection, agent) = client(&server).await;
    let held = agent.locks().request("n").await.unwrap();
    let token = held.fencing_token().get();
    server.restart();
    // The first is killed, whether it has answered the client or not.
    server.restart();
    until_known(&connection, "n", (1, 0)).await;
    is_held(&held, token);
    server.restart();
    until_known(&connection, "n", (1, 0)).await;
    is_held(&held, token);
    assert_eq!(held.release().await, Ok(()));
}

#[tokio::test]
async fn a_lock_outlives_one_recovery_after_the_other() {
    let mut server = ServerProcess::with_file("2s");
    let (connection, agent) = client(&server).await;
    let held = agent.locks().request("n").await.unwrap();
    let token = held.fencing_token().get();
    for _ in 0..3 {
        server.restart();
        until_known(&connection, "n", (1, 0)).await;
        // Once a client is granted a lock the recovery is over, and the ticket of before with it.
        drop(agent.locks().request("m").await.unwrap());
        is_held(&held, token);
    }
}

#[tokio::test]
async fn a_stop_without_web_locks_needs_no_recovery() {
    let mut server = ServerProcess::with_file("10m");
    let (_connection, agent) = client(&server).await;
    let first = agent.locks().request("n").await.unwrap();
    let token = first.fencing_token();
    assert_eq!(first.release().await, Ok(()));
    assert!(server.terminate());
    server.start_again();
    // With a recovery this would take ten minutes.
    let second = agent.locks().request("n").if_available().await.unwrap();
    assert!(second.fencing_token() > token);
}

// With a second thread for the clients, as the test waits for the server to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_stop_only_what_was_held_waits_for_its_holder() {
    // With a recovery this would take ten minutes, and with a drain as long.
    let mut server = ServerProcess::with_file("10m");
    let (holding, holder) = client(&server).await;
    let (leaving, leaver) = client(&server).await;
    let (_other, other) = client(&server).await;
    let held = holder.locks().request("held-by-one-who-stays").await.unwrap();
    let token = held.fencing_token().get();
    let left = leaver.locks().request("held by one who leaves").await.unwrap();
    let given_back = leaver.locks().request("given back").await.unwrap();
    assert_eq!(given_back.release().await, Ok(()));
    let stopped = Instant::now();
    assert!(server.terminate());
    assert!(stopped.elapsed() < Duration::from_secs(9), "it waited for holders: {:?}", stopped.elapsed());
    let file = std::fs::read(server.file()).unwrap();
    let has = |text: &str| file.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("TABLE slots") && !has("held-by-one-who-stays"), "no name of a web lock is in the file");
    drop((left, leaver));
    leaving.close().await;

    server.start_again();
    drop(other.locks().request("given back").if_available().await.unwrap());
    drop(other.locks().request("free").if_available().await.unwrap());
    until_known(&holding, "held-by-one-who-stays", (1, 0)).await;
    is_held(&held, token);
    for name in ["held-by-one-who-stays", "held by one who leaves"] {
        let taken = other.locks().request(name).if_available().await.unwrap_err();
        assert!(matches!(taken, RequestError::Unavailable(_)), "{name}: {taken:?}");
    }
    let locks = other.locks().clone();
    let next = tokio::spawn(async move { locks.request("held-by-one-who-stays").await });
    until_known(&holding, "held-by-one-who-stays", (1, 1)).await;
    assert_eq!(held.release().await, Ok(()));
    assert!(next.await.unwrap().unwrap().fencing_token().get() > token);
}

// With a second thread for the client, as the test waits for the server to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_gives_back_while_the_server_is_away_is_free_once_it_has_come_back() {
    let mut server = ServerProcess::with_file("10m");
    let (_holding, holder) = client(&server).await;
    let (_other, other) = client(&server).await;
    let held = holder.locks().request("n").await.unwrap();
    let token = held.fencing_token();
    assert!(server.terminate());
    drop(held);
    server.start_again();
    assert!(other.locks().request("n").await.unwrap().fencing_token() > token);
}

#[tokio::test]
async fn a_server_without_a_file_waits_for_the_lease_and_takes_no_reclaims() {
    let mut server = ServerProcess::forgetful(LEASE);
    let begun = Instant::now();
    let (_connection, agent) = client(&server).await;
    let held = agent.locks().request("n").await.unwrap();
    assert!(begun.elapsed() > WHILE, "granted after {:?}", begun.elapsed());
    server.restart();
    let restarted = Instant::now();
    assert_eq!(held.lost().await, Loss::SessionEnded);
    drop(agent.locks().request("n").await.unwrap());
    assert!(restarted.elapsed() > WHILE, "granted after {:?}", restarted.elapsed());
}

#[tokio::test]
async fn offline_locks_outlive_the_server_and_web_locks_meet_them() {
    let mut server = ServerProcess::with_file(LEASE);
    assert!(server.terminate());
    let customers = RecordKind::new("customer", LockType::ReadWrite);
    let store = Arc::new(SqliteStore::open(server.file()).unwrap());
    let house = House::open(store, Options::new()).await.unwrap();
    let ada = house.bucket("default").owners().open("Ada", Duration::from_secs(600)).await.unwrap();
    let locks = ada.lock([customers.for_write(7)]).await.unwrap();
    let token = locks[0].token;
    house.close().await;
    server.start_again();
    let (connection, agent) = client(&server).await;
    let held = agent.locks().request("n").await.unwrap();
    server.restart();
    until_known(&connection, "n", (1, 0)).await;
    until_known(&connection, "customer/7", (1, 0)).await;
    let asked = agent.locks().request("customer/7").if_available().await;
    let Err(RequestError::Unavailable(unavailable)) = asked else { panic!("{asked:?}") };
    let [ada_holds] = &*unavailable.holders else { panic!("{:?}", unavailable.holders) };
    assert_eq!((&*ada_holds.client_id, ada_holds.kind), ("Ada", HolderKind::Offline(ada.id())));
    let snapshot = connection.query(None).await.unwrap();
    let customer = snapshot.held.iter().find(|info| info.kind != HolderKind::Web).unwrap();
    assert_eq!(customer.fencing_token(), Some(token));
    assert!(held.fencing_token() > token);
    assert_eq!(held.loss(), None);
}
