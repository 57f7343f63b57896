//! On PostgreSQL, over several connections.

use std::time::Duration;

use lockhouse::fence::{FenceError, Stale, postgres};
use lockhouse::{FencingToken, Mode};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use super::oracle::{MATRIX, Oracle, Step, visits};
use crate::server::Server;

type Passed = Result<(), FenceError<tokio_postgres::Error>>;

/// A server with the tables of the fence and of the application.
async fn shop() -> (Server, Client) {
    let server = Server::start(&["fsync=off"]);
    let db = server.connect().await;
    postgres::create_table(&db).await.unwrap();
    postgres::create_table(&db).await.unwrap();
    db.batch_execute("create table writes (nth bigserial primary key, token bigint not null)").await.unwrap();
    (server, db)
}

async fn writes(db: &Client) -> Vec<i64> {
    let rows = db.query("select token from writes order by nth", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn pass(tx: &Transaction<'_>, token: u64) -> Passed {
    postgres::pass(tx, b"stock/chair", FencingToken::new(token), Mode::Exclusive).await
}

/// The work of an application: fence and write, in one transaction.
async fn write(db: &mut Client, token: u64) -> Passed {
    let tx = db.transaction().await.map_err(FenceError::Database)?;
    pass(&tx, token).await?;
    tx.execute("insert into writes (token) values ($1)", &[&(token as i64)])
        .await
        .map_err(FenceError::Database)?;
    tx.commit().await.map_err(FenceError::Database)
}

/// One visit in a transaction of its own, which rolls back if it is refused.
async fn visit(db: &mut Client, step: &Step) -> Result<(), Stale> {
    let tx = db.transaction().await.unwrap();
    match postgres::pass(&tx, &step.resource, step.token(), step.mode).await {
        Ok(()) => {
            tx.commit().await.unwrap();
            Ok(())
        }
        Err(FenceError::Stale(stale)) => Err(stale),
        Err(FenceError::Database(error)) => panic!("{error:?}"),
    }
}

fn is_stale(passed: &Passed, presented: u64, needed: u64) -> bool {
    matches!(passed, Err(FenceError::Stale(stale))
        if (stale.presented.get(), stale.needed.get()) == (presented, needed))
}

/// Until that many sessions wait for a lock of the database.
async fn until_waiting(db: &Client, sessions: i64) {
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    while db.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < sessions {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn postgres_passes_what_the_matrix_and_the_oracle_pass() {
    let (_server, mut db) = shop().await;
    for (nth, (first, second, passes)) in MATRIX.into_iter().enumerate() {
        for (token, passes) in (4..).zip(passes) {
            let resource = format!("{nth}/{token}");
            visit(&mut db, &Step::new(resource.as_bytes(), 5, first)).await.unwrap();
            let second = Step::new(resource.as_bytes(), token, second);
            let wanted = if passes { Ok(()) } else { Err(second.refused(5)) };
            assert_eq!(visit(&mut db, &second).await, wanted, "{first:?} 5, then {second:?}");
        }
    }
    let mut runner = TestRunner::deterministic();
    for _ in 0..25 {
        db.batch_execute("delete from lockhouse_fence").await.unwrap();
        let mut oracle = Oracle::default();
        for step in visits().new_tree(&mut runner).unwrap().current() {
            assert_eq!(visit(&mut db, &step).await, oracle.pass(&step), "{step:?}");
        }
    }
}

#[tokio::test]
async fn of_two_transactions_on_postgres_the_stale_one_never_writes() {
    let (server, db) = shop().await;
    let (mut old, mut new) = (server.connect().await, server.connect().await);

    // The first visit of all: the newer one has passed and not committed, the older one waits for it, and is
    // refused.
    let tx = new.transaction().await.unwrap();
    pass(&tx, 6).await.unwrap();
    let waiter = tokio::spawn(async move { (write(&mut old, 5).await, old) });
    until_waiting(&db, 1).await;
    tx.commit().await.unwrap();
    let (passed, mut old) = waiter.await.unwrap();
    assert!(is_stale(&passed, 5, 6), "{passed:?}");

    // The same where there is a row already, which the newer one raises.
    let tx = new.transaction().await.unwrap();
    pass(&tx, 8).await.unwrap();
    let waiter = tokio::spawn(async move { (write(&mut old, 7).await, old) });
    until_waiting(&db, 1).await;
    tx.commit().await.unwrap();
    let (passed, mut old) = waiter.await.unwrap();
    assert!(is_stale(&passed, 7, 8), "{passed:?}");

    // If the newer one rolls back, it was never there.
    let tx = new.transaction().await.unwrap();
    pass(&tx, 10).await.unwrap();
    let waiter = tokio::spawn(async move { (write(&mut old, 9).await, old) });
    until_waiting(&db, 1).await;
    tx.rollback().await.unwrap();
    let (passed, _old) = waiter.await.unwrap();
    passed.unwrap();
    assert_eq!(writes(&db).await, [9]);
}

#[tokio::test]
async fn a_zombie_never_writes_to_postgres() {
    let (server, db) = shop().await;
    let (mut zombie, mut next) = (server.connect().await, server.connect().await);
    // The holder begins its critical section, and sleeps. Its lock is lost, and the next holder begins before
    // it wakes up.
    visit(&mut zombie, &Step::new(b"stock/chair", 5, Mode::Exclusive)).await.unwrap();
    visit(&mut next, &Step::new(b"stock/chair", 6, Mode::Exclusive)).await.unwrap();
    let refused = write(&mut zombie, 5).await;
    assert!(is_stale(&refused, 5, 6), "{refused:?}");
    write(&mut next, 6).await.unwrap();
    assert_eq!(writes(&db).await, [6]);

    // With a snapshot from before the next holder passed, PostgreSQL itself refuses.
    let tx =
        zombie.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    tx.query("select * from writes", &[]).await.unwrap();
    write(&mut next, 7).await.unwrap();
    let Err(FenceError::Database(error)) = pass(&tx, 8).await else { panic!("passed on an old snapshot") };
    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_write_to_postgres_in_the_order_of_their_tokens() {
    const CALLERS: u64 = 8;
    const ROUNDS: u64 = 50;
    let (server, db) = shop().await;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let mut db = server.connect().await;
        callers.spawn(async move {
            let mut refused = 0;
            for round in 0..ROUNDS {
                // All writers' tokens grow, and no writer waits for another: a slow writer is stale.
                match write(&mut db, round * CALLERS + caller + 1).await {
                    Ok(()) => {}
                    Err(FenceError::Stale(_)) => refused += 1,
                    Err(FenceError::Database(error)) => panic!("{error:?}"),
                }
            }
            refused
        });
    }
    let refused: u64 = callers.join_all().await.into_iter().sum();
    let tokens = writes(&db).await;
    assert!(tokens.is_sorted(), "{tokens:?}");
    assert_eq!(tokens.len() as u64 + refused, CALLERS * ROUNDS);
    assert!(refused > 0 && tokens.len() > 1, "{refused} refused, {} written: nothing met", tokens.len());
}
