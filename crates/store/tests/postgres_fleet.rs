//! Several nodes over one schema: who lives, and whose the slots are, directly and through a pooler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_core::{Change, FencingToken, Mode};
use lockhouse_store::{
    CommitBatch, CommitOutcome, Fleet, FleetStore, HeldList, HeldWebLock, JoinError, NewNode, NodeId,
    NodeRenewal, Opened, PostgresFleet, PostgresOptions, PostgresStore, RecoveredRow, Scope, Slot, Store,
    TakeError, Write, WriterId,
};

use crate::pgbouncer::PgBouncer;
use crate::server::Server;

const SLOTS: u16 = 4;

fn node(label: &str) -> NewNode {
    let address = format!("https://{label}.example").into();
    NewNode { label: label.into(), address, slot_lease: Duration::from_secs(3), secret_mark: [7; 32] }
}

async fn store(address: &str) -> PostgresStore {
    let options = PostgresOptions::default().slots(SLOTS).statement_timeout(Duration::from_secs(20));
    PostgresStore::open(address, options).await.unwrap()
}

async fn joined(address: &str, label: &str) -> PostgresStore {
    store(address).await.join(&node(label)).await.unwrap()
}

async fn take(store: &PostgresStore, slot: u16) -> Result<Opened, TakeError> {
    store.take_slot(Slot::new(slot), WriterId(1), &mut drop::<RecoveredRow>).await
}

fn scope() -> Arc<Scope> {
    Arc::new(Scope::new("t", "b"))
}

fn batch(slot: u16, opened: &Opened, first_seq: u64, writes: Vec<Write>) -> Arc<CommitBatch> {
    Arc::new(CommitBatch {
        slot: Slot::new(slot),
        epoch: opened.epoch,
        writer: WriterId(1),
        first_seq,
        writes,
    })
}

fn reserves(up_to: u64) -> Vec<Write> {
    vec![Write::Change { scope: scope(), change: Change::TokensReserved { up_to } }]
}

async fn outcome(store: &PostgresStore, batch: &Arc<CommitBatch>) -> CommitOutcome {
    store.commit(vec![batch.clone()]).await.unwrap().remove(0)
}

fn owns(slots: &[u16]) -> NodeRenewal {
    NodeRenewal::Owns(slots.iter().map(|slot| Slot::new(*slot)).collect())
}

/// The counter of that node, as others see it.
async fn counter(by: &PostgresStore, of: NodeId) -> Option<u64> {
    by.look().await.unwrap().nodes.iter().find(|node| node.id == of).map(|node| node.counter)
}

/// Declares the node dead, whatever its counter is.
async fn bury(by: &PostgresStore, dead: NodeId) {
    while let Some(seen) = counter(by, dead).await {
        by.bury(dead, seen).await.unwrap();
    }
}

/// A server, and the ways to it.
async fn each_way(run: impl AsyncFn(&str)) {
    let server = Server::start(&[]);
    run(&server.address()).await;
    server.connect().await.batch_execute("DROP SCHEMA lockhouse CASCADE").await.unwrap();
    let pgbouncer = PgBouncer::before(&server);
    run(&pgbouncer.address()).await;
}

#[tokio::test]
async fn a_node_has_its_slots_until_it_is_declared_dead_and_writes_nothing_after_that() {
    each_way(async |address| {
        let (a, b) = (joined(address, "a").await, joined(address, "b").await);
        let (of_a, of_b) = (take(&a, 0).await.unwrap(), take(&b, 1).await.unwrap());
        assert_eq!(take(&b, 0).await, Err(TakeError::OwnedElsewhere(Slot::new(0))));
        assert_eq!(take(&b, 9).await, Err(TakeError::NoSuchSlot(Slot::new(9))));
        assert_eq!((a.renew().await.unwrap(), b.renew().await.unwrap()), (owns(&[0]), owns(&[1])));
        assert_eq!(outcome(&a, &batch(0, &of_a, 1, reserves(7))).await, CommitOutcome::Committed);
        assert_eq!(outcome(&b, &batch(1, &of_b, 1, reserves(7))).await, CommitOutcome::Committed);

        bury(&b, a.node().unwrap()).await;
        let late = batch(0, &of_a, 2, reserves(9));
        assert_eq!(outcome(&a, &late).await, CommitOutcome::Fenced);
        assert_eq!(a.renew().await.unwrap(), NodeRenewal::Dead);
        assert_eq!(take(&a, 2).await, Err(TakeError::NodeGone));
        let next = take(&b, 0).await.unwrap();
        assert!(next.epoch > of_a.epoch);
        assert_eq!(b.renew().await.unwrap(), owns(&[0, 1]));
        assert_eq!(outcome(&a, &late).await, CommitOutcome::Fenced);
        // It comes back as another node.
        let a = a.join(&node("a")).await.unwrap();
        assert_eq!(a.renew().await.unwrap(), owns(&[]));
        assert_eq!(take(&a, 0).await, Err(TakeError::OwnedElsewhere(Slot::new(0))));
        take(&a, 2).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_node_that_renews_is_not_declared_dead() {
    each_way(async |address| {
        let (a, b) = (joined(address, "a").await, joined(address, "b").await);
        let dead = a.node().unwrap();
        let mut seen = counter(&b, dead).await.unwrap();
        let opened = take(&a, 0).await.unwrap();
        let of_slot = batch(0, &opened, 1, reserves(7));
        for write in 0..4 {
            assert!(!b.bury(dead, seen).await.unwrap(), "{write}");
            let now = counter(&b, dead).await.unwrap();
            assert!(now > seen, "{write}: a take, a commit, a repeat and a renewal each add");
            seen = now;
            match write {
                0 | 1 => assert_eq!(outcome(&a, &of_slot).await, CommitOutcome::Committed),
                _ => assert_eq!(a.renew().await.unwrap(), owns(&[0])),
            }
        }
        // A node that is dead itself declares none dead.
        bury(&b, dead).await;
        let seen = counter(&b, b.node().unwrap()).await.unwrap();
        assert!(!a.bury(b.node().unwrap(), seen).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_label_is_of_one_node_at_a_time() {
    let server = Server::start(&[]);
    let a = joined(&server.address(), "a").await;
    let JoinError::LabelInUse(row) = store(&server.address()).await.join(&node("a")).await.unwrap_err()
    else {
        panic!()
    };
    assert_eq!(
        (Some(row.id), &*row.address, row.slot_lease),
        (a.node(), "https://a.example", Duration::from_secs(3))
    );
    let other = store(&server.address()).await;
    assert!(other.bury(row.id, row.counter).await.unwrap(), "one that has not joined may, too");
    other.join(&node("a")).await.unwrap();
    assert_eq!(a.renew().await.unwrap(), NodeRenewal::Dead);
}

#[tokio::test]
async fn a_slot_that_is_given_back_passes_with_the_list_of_what_was_held() {
    let server = Server::start(&[]);
    let (a, b) = (joined(&server.address(), "a").await, joined(&server.address(), "b").await);
    let opened = take(&a, 0).await.unwrap();
    let lock =
        HeldWebLock { name: [1; 16], session: [2; 16], mode: Mode::Exclusive, token: FencingToken::new(7) };
    let held = HeldList::new(vec![(scope(), vec![lock])]).unwrap();
    let last = batch(0, &opened, 1, vec![Write::StoppedHolding { held: Some(held.clone()) }]);
    assert_eq!(outcome(&a, &last).await, CommitOutcome::Committed);
    assert_eq!((a.renew().await.unwrap(), outcome(&a, &last).await), (owns(&[]), CommitOutcome::Committed));
    assert_eq!(take(&b, 0).await.unwrap().held, Some(held));
    assert_eq!(outcome(&a, &last).await, CommitOutcome::Fenced);

    let opened = take(&a, 1).await.unwrap();
    let last = batch(1, &opened, 1, vec![Write::StoppedClean]);
    assert_eq!(outcome(&a, &last).await, CommitOutcome::Committed);
    assert!(take(&b, 1).await.unwrap().clean);
    a.leave().await.unwrap();
    assert_eq!(b.look().await.unwrap().nodes.len(), 1);
}

#[tokio::test]
async fn a_slot_keeps_the_longest_slot_lease_of_its_owners_until_one_of_them_gives_it_back() {
    let server = Server::start(&[]);
    let address = server.address();
    let join = async |label: &str, seconds: u64| {
        let node = NewNode { slot_lease: Duration::from_secs(seconds), ..node(label) };
        store(&address).await.join(&node).await.unwrap()
    };
    let (a, b) = (join("a", 60).await, join("b", 3).await);
    let slot_lease =
        async || b.look().await.unwrap().slots.iter().find(|row| row.slot.get() == 0).unwrap().slot_lease;
    take(&a, 0).await.unwrap();
    bury(&b, a.node().unwrap()).await;
    // It waits for that owner, and may die meanwhile.
    let opened = take(&b, 0).await.unwrap();
    assert_eq!(slot_lease().await, Duration::from_secs(60));
    let last = batch(0, &opened, 1, vec![Write::StoppedHolding { held: None }]);
    assert_eq!(outcome(&b, &last).await, CommitOutcome::Committed);
    take(&b, 0).await.unwrap();
    assert_eq!(slot_lease().await, Duration::from_secs(3));

    // After a failover no owner has given it back in the present generation.
    let a = join("a", 60).await;
    take(&a, 1).await.unwrap();
    a.declare_restored().await.unwrap();
    let b = b.join(&node("b")).await.unwrap();
    let opened = take(&b, 1).await.unwrap();
    let last = batch(1, &opened, 1, vec![Write::StoppedHolding { held: None }]);
    assert_eq!(outcome(&b, &last).await, CommitOutcome::Committed);
    take(&b, 1).await.unwrap();
    let rows = b.look().await.unwrap().slots;
    assert_eq!(rows.iter().find(|row| row.slot.get() == 1).unwrap().slot_lease, Duration::from_secs(60));
}

#[tokio::test]
async fn what_a_dead_life_of_a_node_took_it_writes_no_more_in_the_next() {
    let server = Server::start(&[]);
    let (a, b) = (joined(&server.address(), "a").await, joined(&server.address(), "b").await);
    let opened = take(&a, 0).await.unwrap();
    bury(&b, a.node().unwrap()).await;
    let a = a.join(&node("a")).await.unwrap();
    assert_eq!(outcome(&a, &batch(0, &opened, 1, reserves(7))).await, CommitOutcome::Fenced);
    // Nor what it took without a node.
    let single = store(&server.address()).await;
    a.leave().await.unwrap();
    b.leave().await.unwrap();
    let opened = take(&single, 1).await.unwrap();
    assert_eq!(outcome(&single, &batch(1, &opened, 1, reserves(7))).await, CommitOutcome::Committed);
    let single = single.join(&node("c")).await.unwrap();
    assert_eq!(outcome(&single, &batch(1, &opened, 2, reserves(9))).await, CommitOutcome::Fenced);
}

#[tokio::test]
async fn a_take_without_a_node_that_waited_while_one_joined_takes_nothing() {
    let server = Server::start(&[]);
    let single = store(&server.address()).await;
    let (mut admin, watcher) = (server.connect().await, server.connect().await);
    let transaction = admin.transaction().await.unwrap();
    transaction.execute("SELECT FROM lockhouse.slots WHERE slot = 0 FOR UPDATE", &[]).await.unwrap();
    let waiting = tokio::spawn(async move { take(&single, 0).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while watcher.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    let a = joined(&server.address(), "a").await;
    transaction
        .execute("UPDATE lockhouse.slots SET owner = $1 WHERE slot = 0", &[&(a.node().unwrap().0 as i64)])
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap(), Err(TakeError::IsOfFleet));
    assert_eq!(a.renew().await.unwrap(), owns(&[0]));
}

#[tokio::test]
async fn a_take_that_comes_late_does_not_end_the_one_that_was_answered() {
    let server = Server::start(&[]);
    let a = joined(&server.address(), "a").await;
    let opened = take(&a, 0).await.unwrap();
    let late = server.connect().await;
    let sql = "SELECT verdict FROM lockhouse.fleet,
               lockhouse.take(1000, ROW(generation, 0, 0, NULL, NULL, NULL, NULL)::lockhouse.known, 0, 2, $1, $2)";
    let (node, seen) = (a.node().unwrap().0 as i64, opened.epoch as i64 - 1);
    assert_eq!(late.query_one(sql, &[&node, &seen]).await.unwrap().get::<_, i32>(0), 4);
    assert_eq!(outcome(&a, &batch(0, &opened, 1, reserves(7))).await, CommitOutcome::Committed);
}

#[tokio::test]
async fn a_fleet_gives_no_slot_to_a_process_that_is_no_node() {
    let server = Server::start(&[]);
    let single = store(&server.address()).await;
    let opened = take(&single, 0).await.unwrap();
    let a = joined(&server.address(), "a").await;
    assert_eq!(take(&single, 1).await, Err(TakeError::IsOfFleet));
    // What it took before is free for nodes: such a process renews nothing.
    take(&a, 0).await.unwrap();
    assert_eq!(outcome(&single, &batch(0, &opened, 1, reserves(7))).await, CommitOutcome::Fenced);
    assert_eq!(single.renew().await.unwrap(), NodeRenewal::Dead, "it is no node");
    a.leave().await.unwrap();
    take(&single, 0).await.unwrap();
}

#[tokio::test]
async fn of_many_nodes_that_take_a_free_slot_at_once_one_has_it() {
    let server = Server::start(&[]);
    let mut nodes = Vec::new();
    for nth in 0..6 {
        nodes.push(Arc::new(joined(&server.address(), &format!("{nth}")).await));
    }
    for slot in 0..SLOTS {
        let takes: Vec<_> = nodes
            .iter()
            .map(|node| {
                let node = node.clone();
                tokio::spawn(async move { take(&node, slot).await })
            })
            .collect();
        let mut taken = 0;
        for take in takes {
            match take.await.unwrap() {
                Ok(_) => taken += 1,
                Err(error) => assert_eq!(error, TakeError::OwnedElsewhere(Slot::new(slot))),
            }
        }
        assert_eq!(taken, 1, "slot {slot}");
    }
}

/// A commit and a burial meet: either the node lives, or the commit has not come about.
#[tokio::test]
async fn a_commit_that_meets_a_burial_is_kept_only_if_the_node_lives() {
    let server = Server::start(&[]);
    let judge = Arc::new(joined(&server.address(), "judge").await);
    let (mut dead, mut alive) = (0, 0);
    for round in 0..60 {
        let a = Arc::new(joined(&server.address(), "a").await);
        let opened = take(&a, 0).await.unwrap();
        let (id, seen) = (a.node().unwrap(), counter(&judge, a.node().unwrap()).await.unwrap());
        let next = batch(0, &opened, 1, reserves(round + 1));
        let burial = tokio::spawn({
            let judge = judge.clone();
            async move { judge.bury(id, seen).await.unwrap() }
        });
        let commit = outcome(&a, &next).await;
        match (burial.await.unwrap(), commit) {
            (true, CommitOutcome::Fenced) => dead += 1,
            (false, CommitOutcome::Committed) => alive += 1,
            both => panic!("{both:?} in round {round}"),
        }
        bury(&judge, id).await;
    }
    assert_eq!(dead + alive, 60);
}

#[tokio::test]
async fn a_field_of_a_node_that_is_out_of_its_range_is_named() {
    let server = Server::start(&[]);
    for (wrong, field) in [
        (NewNode { label: "".into(), ..node("a") }, "label"),
        (NewNode { label: "x".repeat(257).into(), ..node("a") }, "label"),
        (NewNode { address: "x".repeat(2049).into(), ..node("a") }, "address"),
        (NewNode { slot_lease: Duration::from_millis(99), ..node("a") }, "slot_lease"),
        (NewNode { slot_lease: Duration::from_secs(601), ..node("a") }, "slot_lease"),
    ] {
        let error = store(&server.address()).await.join(&wrong).await.unwrap_err();
        assert!(matches!(error, JoinError::Field { field: found, .. } if found == field), "{error}");
    }
}

#[tokio::test]
async fn a_node_that_comes_back_gives_up_only_where_the_tables_are_for_others() {
    let server = Server::start(&[]);
    let options = PostgresOptions::default().slots(SLOTS).statement_timeout(Duration::from_secs(20));
    let fleet = PostgresFleet::open(&server.address(), options).await.unwrap();
    let admin = server.connect().await;
    fleet.join(&node("a")).await.unwrap();
    let version: i32 =
        admin.query_one("SELECT version::int4 FROM lockhouse.fleet", &[]).await.unwrap().get(0);
    let set = async |version: i32| {
        admin.batch_execute(&format!("UPDATE lockhouse.fleet SET version = {version}")).await.unwrap();
    };
    set(99).await;
    let newer = fleet.join(&node("b")).await.unwrap_err();
    assert!(matches!(&newer, JoinError::NotOpened(why) if why.contains("99")), "{newer:?}");
    set(version).await;
    // Faults of settings may be mended at any time.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockhouse'";
    for (set, is_joined) in
        [("SET default_transaction_isolation = 'serializable'", false), ("RESET ALL", true)]
    {
        admin.batch_execute(&format!("ALTER ROLE postgres {set}; {end}")).await.unwrap();
        // The first attempt may find that its connection is gone.
        let joined = [fleet.join(&node("b")).await, fleet.join(&node("b")).await];
        let has_joined = joined.iter().any(Result::is_ok);
        assert_eq!(has_joined, is_joined, "{joined:?}");
    }
    assert_eq!(fleet.look().await.unwrap().nodes.len(), 2);
}

/// A bucket with most rows of a table decides about the plan of no other.
#[tokio::test]
async fn a_slot_of_small_buckets_is_loaded_without_a_scan_of_the_tables() {
    let server = Server::start(&[]);
    let a = joined(&server.address(), "a").await;
    let looker = server.connect().await;
    let fill = "INSERT INTO lockhouse.buckets (slot, tenant, bucket)
            SELECT i / 4, 't', convert_to(i::text, 'UTF8') FROM generate_series(0, 4) AS i;
        INSERT INTO lockhouse.owners (bucket, owner, label, ttl_ms, since, seal)
            SELECT id, i, 'x', 1, 1, 1
            FROM lockhouse.buckets, generate_series(1, CASE slot WHEN 1 THEN 20000 ELSE 3 END) AS i;
        INSERT INTO lockhouse.locks (bucket, name, owner, mode, token, since)
            SELECT bucket, convert_to(owner::text, 'UTF8'), owner, 'shared', owner, 1 FROM lockhouse.owners;
        INSERT INTO lockhouse.voided (bucket, owner, seq, at, what, why, names)
            SELECT bucket, owner, 1, 1, 'all', 'expired', '' FROM lockhouse.owners;
        INSERT INTO lockhouse.claims (bucket, name, claimant, token, ttl_ms, since, seal)
            SELECT bucket, 'c' || name, 'x', token, 1, 1, 1 FROM lockhouse.locks;
        INSERT INTO lockhouse.assignments (bucket, name, claimant, token, since, seal)
            SELECT bucket, 'a' || name, 'x', token, 1, 1 FROM lockhouse.locks;";
    looker.batch_execute(fill).await.unwrap();
    looker.batch_execute("VACUUM ANALYZE").await.unwrap();
    let read = "SELECT relname::text, seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables
        WHERE relname IN ('owners', 'locks', 'voided', 'claims', 'assignments') ORDER BY relname";
    let tables = async || {
        // The counts of a process are there once it has ended.
        let is_there = "SELECT FROM pg_stat_activity WHERE application_name = 'lockhouse'";
        while !looker.query(is_there, &[]).await.unwrap().is_empty() {}
        let rows = looker.query(read, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(String, i64)>>()
    };
    a.leave().await.unwrap();
    a.close().await.unwrap();
    let before = tables().await;
    let b = joined(&server.address(), "b").await;
    let mut rows = 0;
    b.take_slot(Slot::new(0), WriterId(1), &mut |_| rows += 1).await.unwrap();
    assert_eq!(rows, 4 * (1 + 5 * 3));
    b.close().await.unwrap();
    for ((table, before), (_, after)) in before.into_iter().zip(tables().await) {
        // `a` is small: 12 rows of that slot.
        assert!(after - before < 100, "{} rows of {table}", after - before);
    }
}

/// It takes as long as its rows are taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_takes_long_holds_up_no_other() {
    let server = Server::start(&[]);
    let a = Arc::new(joined(&server.address(), "a").await);
    let fill = "INSERT INTO lockhouse.buckets (slot, tenant, bucket) VALUES (0, 't', 'b'), (1, 't', 'b')";
    server.connect().await.batch_execute(fill).await.unwrap();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let slow = Arc::clone(&a);
    let slow = tokio::spawn(async move {
        let visit = &mut move |_| {
            begun.send(()).unwrap();
            tokio::task::block_in_place(|| goes_on.recv().unwrap());
        };
        slow.take_slot(Slot::new(0), WriterId(1), visit).await
    });
    let has_begun = tokio::task::spawn_blocking(move || has_begun.recv().map(|()| has_begun));
    let _has_begun = has_begun.await.unwrap().unwrap();
    take(&a, 1).await.unwrap();
    go_on.send(()).unwrap();
    slow.await.unwrap().unwrap();
}

/// While old versions of a row are kept alive, each search for it passes all of them.
#[tokio::test]
async fn a_commit_searches_for_the_row_of_a_slot_twice_and_who_keeps_versions_alive_is_named() {
    const COMMITS: u64 = 50;
    let server = Server::start(&["max_prepared_transactions=1"]);
    let looker = server.connect().await;
    let a = joined(&server.address(), "a").await;
    let opened = take(&a, 0).await.unwrap();
    let hold = "SET application_name = 'pg_dump'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    let holder = server.connect().await;
    holder.batch_execute(hold).await.unwrap();
    for seq in 1..=COMMITS {
        assert_eq!(outcome(&a, &batch(0, &opened, seq, reserves(seq))).await, CommitOutcome::Committed);
    }
    a.close().await.unwrap();
    let is_there = "SELECT FROM pg_stat_activity WHERE application_name = 'lockhouse'";
    while !looker.query(is_there, &[]).await.unwrap().is_empty() {}
    let scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'slots_pkey'";
    let scans: i64 = looker.query_one(scans, &[]).await.unwrap().get(0);
    // A few more come with the start, the take and the load.
    assert!((scans as u64) < 2 * COMMITS + 20, "{scans}");

    let oldest = async || {
        let limit = Duration::from_secs(20);
        let options = PostgresOptions::default().slots(SLOTS);
        let look = PostgresStore::look_at(&server.address(), options, limit).await.unwrap();
        look.oldest_holder.unwrap()
    };
    let (who, age) = oldest().await;
    assert!(who.contains("pg_dump") && age >= COMMITS as i64, "{who} {age}");
    holder.batch_execute("COMMIT; BEGIN; SELECT txid_current(); PREPARE TRANSACTION 'left'").await.unwrap();
    assert_eq!(oldest().await.0.as_ref(), "the prepared transaction 'left'");
    // A node looks at its first commit, and then once a minute.
    let b = joined(&server.address(), "b").await;
    let opened = take(&b, 1).await.unwrap();
    assert_eq!(outcome(&b, &batch(1, &opened, 1, reserves(1))).await, CommitOutcome::Committed);
    let begun = Instant::now();
    while FleetStore::oldest_holder(&b).is_none_or(|(who, _)| !who.contains("'left'")) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", FleetStore::oldest_holder(&b));
        tokio::task::yield_now().await;
    }
}
