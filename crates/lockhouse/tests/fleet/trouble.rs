//! Trouble with the store, with what it keeps, and with other nodes.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lockhouse::core::{Acquire, Command, NewRequest};
use lockhouse::fleet::{BucketPlace, FleetNode, NodeError, NodeEvent, NodeOptions, Timing, owner_of};
use lockhouse::store::{JoinError, Slot, token_floor};
use lockhouse::{ClaimError, FencingToken, ManualClock, Mode, Name, Options, StoreError};
use tokio::time::{sleep, timeout};

use super::nodes::*;
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_a_node_falls_silent_and_no_slot_moves() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    let b = peers.start(&server, "b").await.unwrap();
    settled(&[&a, &b]).await;
    let (before, key) = (served(&[&a, &b]), bucket_of(&a, slots_of(&a, &[&a, &b])[0]));
    let bucket = house(&a, &key).bucket(key.clone());
    let lease = bucket.slot_lease().unwrap().clone();
    assert!(!lease.is_mute());
    // No commit and no poll gets through.
    let mut client = server.connect().await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE lockhouse.nodes IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let begun = Instant::now();
    poll_until(|| lease.is_mute()).await;
    assert!(begun.elapsed() >= SLOT_LEASE / 10 * 9 - SLOT_LEASE / 2, "{:?}", begun.elapsed());
    assert!(a.why_not_ready().is_some());
    let refused = Instant::now();
    let claim = bucket.claims().claim("other seat", "ada", LONG).await;
    assert!(matches!(claim, Err(ClaimError::Store(StoreError::Unavailable { .. }))), "{claim:?}");
    assert!(refused.elapsed() < Duration::from_millis(500), "{:?}", refused.elapsed());
    // The store is away for longer than a node may stand still.
    sleep(2 * SLOT_LEASE).await;
    held.rollback().await.unwrap();
    timeout(Duration::from_secs(5), lease.unmuted()).await.unwrap();
    house(&a, &key).serving().await;
    bucket.claims().claim("seat", "ada", Duration::from_secs(60)).await.unwrap();
    // A node that took the outage for a death would act within this time.
    sleep(2 * SLOT_LEASE).await;
    assert_eq!(served(&[&a, &b]), before);
    assert_eq!(a.why_not_ready(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_lives_and_another_secret_are_refused() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    let again = peers.start(&server, "a").await.unwrap_err();
    assert!(matches!(again, NodeError::Join(JoinError::LabelInUse(_))), "{again:?}");
    let stranger = NodeOptions::new("b", "http://b").secret_mark([1; 32]);
    let refused = peers.start_as(&server, stranger).await.unwrap_err();
    assert!(matches!(&refused, NodeError::OtherSecret { label, .. } if **label == *"a"), "{refused:?}");
    let same_address = NodeOptions::new("b", "http://a");
    let refused = peers.start_as(&server, same_address).await.unwrap_err();
    assert!(matches!(&refused, NodeError::AddressInUse { label, .. } if **label == *"a"), "{refused:?}");
    settled(&[&a]).await;
    assert_eq!(a.view().rows.nodes.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_life_of_the_same_label_is_outlived() {
    let (server, peers) = (Arc::new(Server::start(&[])), InProcess::default());
    let mut former = Process::start(&peers, &server, "a").await;
    settled(&[&former.node]).await;
    former.kill();
    let begun = Instant::now();
    // Its last commit is under way in the database for a while.
    let client = server.connect().await;
    tokio::spawn(async move {
        sleep(SLOT_LEASE / 3).await;
        client.batch_execute("UPDATE lockhouse.nodes SET counter = counter + 1").await.unwrap();
    });
    let a = peers.start(&server, "a").await.unwrap();
    assert!(begun.elapsed() >= SLOT_LEASE, "{:?}", begun.elapsed());
    settled(&[&a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_life_at_the_same_address_is_outlived_whatever_its_label() {
    let (server, peers) = (Arc::new(Server::start(&[])), InProcess::default());
    let mut former = Process::start(&peers, &server, "a").await;
    settled(&[&former.node]).await;
    former.kill();
    let options = NodeOptions::new("b", "http://a").houses(Options::new().lease(LEASE));
    let b = peers.start_as(&server, options).await.unwrap();
    settled(&[&b]).await;
    assert_eq!(b.view().rows.nodes.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_life_is_outlived_also_where_it_cannot_be_declared_dead_at_first() {
    let (server, peers) = (Arc::new(Server::start(&[])), InProcess::default());
    let mut former = Process::start(&peers, &server, "a").await;
    settled(&[&former.node]).await;
    former.kill();
    let (mut client, observer) = (server.connect().await, server.connect().await);
    // It can be looked at, and no node can be deleted.
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE lockhouse.nodes IN SHARE MODE").await.unwrap();
    let next = tokio::spawn({
        let (server, peers) = (server.clone(), peers.clone());
        let options = NodeOptions::new("b", "http://a").houses(Options::new().lease(LEASE));
        async move { peers.start_as(&server, options).await }
    });
    // A burial waits for the table, and is given up.
    for is_waited_for in [true, false] {
        let begun = Instant::now();
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
        while observer.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) != is_waited_for {
            assert!(begun.elapsed() < Duration::from_secs(30), "{is_waited_for}");
            sleep(Duration::from_millis(5)).await;
        }
    }
    held.rollback().await.unwrap();
    let b = timeout(Duration::from_secs(30), next).await.unwrap().unwrap().unwrap();
    settled(&[&b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_a_slot_without_buckets_recovers_once() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    a.leave().await;
    let client = server.connect().await;
    let restore = "UPDATE lockhouse.slots SET restored = true, clean = false, longest_lease_before_ms = 1000";
    client.batch_execute(restore).await.unwrap();
    let b = peers.start(&server, "b").await.unwrap();
    settled(&[&b]).await;
    let begun = Instant::now();
    let count = "SELECT count(*) FROM lockhouse.slots WHERE restored OR longest_lease_before_ms > 0";
    while client.query_one(count, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(begun.elapsed() < 2 * LEASE + 2 * SLOT_LEASE, "{:?}", begun.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_with_more_locks_than_a_list_has_moves_and_recovers() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let slot = (0..SLOTS).map(Slot::new).find(|slot| owner_of(*slot, &["a", "b"]) == Some("b")).unwrap();
    let key = bucket_of(&a, slot);
    let session = Session::begin(&house(&a, &key), &key, "s").await;
    for nth in 0..=10_000 {
        let name = format!("{nth}");
        let request =
            NewRequest::new(session.agent, Name::new(&name).unwrap(), Acquire::Wait(Mode::Exclusive));
        session.port.submit(0, Command::Request(request));
    }
    let b = peers.start(&server, "b").await.unwrap();
    let taken = Instant::now();
    let house_of_b = house_in_time(&b, &key).await;
    // The lease of the node that has given it back does not count: it is known to be silent in it.
    let other = Session::begin(&house_of_b, &key, "other").await;
    assert!(house_of_b.waits_for_holders());
    other.lock("free").await;
    assert!(taken.elapsed() >= LEASE, "{:?}", taken.elapsed());
    settled(&[&a, &b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_renews_while_the_store_refuses_its_commits() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let id = a.id();
    // As a person at a prompt may do it: no write to a slot gets through.
    let mut client = server.connect().await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("SELECT FROM lockhouse.slots FOR UPDATE").await.unwrap();
    let claims = (0..SLOTS).map(|slot| {
        let key = bucket_of(&a, Slot::new(slot));
        let claims = house(&a, &key).bucket(key).claims();
        tokio::spawn(async move { claims.claim("seat", "ada", LONG).await })
    });
    let claims: Vec<_> = claims.collect();
    let begun = Instant::now();
    while begun.elapsed() < 3 * SLOT_LEASE {
        let since = a.unconfirmed_for().unwrap();
        assert!(since < SLOT_LEASE / 10 * 9, "{since:?} after {:?}", begun.elapsed());
        sleep(SLOT_LEASE / 50).await;
    }
    held.rollback().await.unwrap();
    poll_until(|| claims.iter().all(tokio::task::JoinHandle::is_finished)).await;
    assert_eq!(a.id(), id);
    settled(&[&a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_polls_while_a_slot_takes_long_to_load() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let mut client = server.connect().await;
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE lockhouse.assignments IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let b = peers.start(&server, "b").await.unwrap();
    let is_opening = || b.view().slots.iter().any(|slot| slot.state == "opening");
    poll_until(is_opening).await;
    let counter = || b.view().rows.nodes.iter().find(|node| &*node.label == "a").unwrap().counter;
    for _ in 0..3 {
        let before = counter();
        poll_until(|| counter() > before).await;
    }
    assert!(is_opening() && b.why_not_ready().is_some());
    // One that leaves meanwhile waits for no load.
    timeout(SLOT_LEASE, b.leave()).await.unwrap();
    held.rollback().await.unwrap();
    settled(&[&a]).await;
}

/// The first slot of a node that has been killed has a bucket whose claims cannot be read for now.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_takes_long_to_load_keeps_no_other_from_being_served() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let key = bucket_of(&a, Slot::new(0));
    house(&a, &key).bucket(key).claims().claim("seat", "ada", LONG).await.unwrap();
    a.leave().await;
    let slow = "ALTER TABLE lockhouse.claims RENAME TO claims_kept;
        CREATE FUNCTION wait() RETURNS boolean LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN true; END';
        CREATE VIEW lockhouse.claims AS SELECT * FROM lockhouse.claims_kept WHERE wait()";
    let mut admin = server.connect().await;
    admin.batch_execute(slow).await.unwrap();
    let held = admin.transaction().await.unwrap();
    held.batch_execute("SELECT pg_advisory_xact_lock(7)").await.unwrap();
    let b = peers.start(&server, "b").await.unwrap();
    let state = |slot: u16| b.view().slots.iter().find(|it| it.slot.get() == slot).map(|it| it.state);
    poll_until(|| (1..SLOTS).all(|slot| state(slot) == Some("serving"))).await;
    assert_eq!(state(0), Some("opening"));
    held.rollback().await.unwrap();
    settled(&[&b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_cannot_be_served_keeps_no_other_from_moving() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let b = peers.start(&server, "b").await.unwrap();
    settled(&[&b]).await;
    let labels = ["a", "b"];
    let broken = (0..SLOTS).map(Slot::new).find(|slot| owner_of(*slot, &labels) == Some("a")).unwrap();
    let spoil = format!(
        "UPDATE lockhouse.slots SET token_floor = {} WHERE slot = {}",
        FencingToken::LIMIT - 1,
        broken.get()
    );
    server.connect().await.batch_execute(&spoil).await.unwrap();
    let a = peers.start(&server, "a").await.unwrap();
    let is_at_home = |(slot, by): (&Slot, &Vec<String>)| {
        *slot == broken && by.is_empty() || by[..] == [owner_of(*slot, &labels).unwrap()]
    };
    poll_until(|| served(&[&a, &b]).iter().all(is_at_home)).await;
    let state =
        |node: &FleetNode| node.view().slots.iter().find(|slot| slot.slot == broken).map(|slot| slot.state);
    poll_until(|| state(&a) == Some("unservable")).await;
    poll_until(|| a.why_not_ready().is_none()).await;
    assert_eq!(state(&b), None);

    // It is mended, and served by another node.
    let mend = format!("UPDATE lockhouse.slots SET token_floor = 0 WHERE slot = {}", broken.get());
    server.connect().await.batch_execute(&mend).await.unwrap();
    a.leave().await;
    poll_until(|| state(&b) == Some("serving")).await;
    let (key, of_b) = (bucket_of(&a, broken), b.id().unwrap());
    poll_until(|| matches!(a.find(&key), BucketPlace::There(node) if node.id == of_b)).await;
    assert_eq!(state(&a), None);
}

/// A page that cannot be read is met by the commit of one slot, and later by all that ends in the history.
#[tokio::test(flavor = "multi_thread")]
async fn damage_ends_one_slot_or_the_history_and_no_node() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let (mut events, id) = (a.events(), a.id());
    let spoil = |table: &str, when: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN RAISE data_corrupted USING MESSAGE = ''invalid page''; END';
             CREATE TRIGGER spoil BEFORE INSERT ON lockhouse.{table} FOR EACH ROW {when} EXECUTE FUNCTION spoil()"
        )
    };
    let admin = server.connect().await;
    admin.batch_execute(&spoil("claims", "WHEN (NEW.claimant = 'eve')")).await.unwrap();
    let keys = [0, 1].map(|slot| bucket_of(&a, Slot::new(slot)));
    let claims = keys.clone().map(|key| house(&a, &key).bucket(key).claims());
    let (lost, kept) =
        tokio::join!(claims[0].claim("seat", "eve", LONG), claims[1].claim("seat", "ada", LONG));
    assert!(lost.is_err());
    let kept = kept.unwrap();
    let state = |slot: u16| a.view().slots.iter().find(|it| it.slot.get() == slot).map(|it| it.state);
    poll_until(|| state(0) == Some("unservable")).await;
    assert_eq!((state(1), a.id()), (Some("serving"), id));
    let said = loop {
        if let NodeEvent::Unservable(slot, why) = events.recv().await.unwrap() {
            assert_eq!(slot.get(), 0);
            break why;
        }
    };
    assert!(said.contains("invalid page") && said.contains("REINDEX"), "{said}");

    admin.batch_execute(&spoil("history", "")).await.unwrap();
    kept.release().await.unwrap();
    let said = loop {
        if let NodeEvent::HistoryFails(why) = events.recv().await.unwrap() {
            break why;
        }
    };
    assert!(said.contains("REINDEX"), "{said}");
    assert_eq!((state(1), a.id()), (Some("serving"), id));
}

#[tokio::test(flavor = "multi_thread")]
async fn fencing_tokens_go_by_the_clock_of_the_database_and_by_that_of_no_node() {
    let (server, peers, clock) = (Server::start(&[]), InProcess::default(), ManualClock::new());
    let days = |days: u64| Duration::from_secs(days * 86_400);
    clock.set_calendar(days(3650).as_millis() as i64);
    let options = NodeOptions::new("a", "").houses(Options::new().lease(LEASE).clock(&clock));
    let a = peers.start_as(&server, options).await.unwrap();
    settled(&[&a]).await;
    let key = bucket_of(&a, Slot::new(0));
    let claim = house(&a, &key).bucket(key).claims().claim("seat", "ada", LONG).await.unwrap();
    let (token, now) = (claim.fencing_token().get(), SystemTime::now());
    assert!(token > token_floor(now - days(1)) && token < token_floor(now + days(1)), "{token}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_slower_than_the_pause_between_renewals_still_gets_commits() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let options = NodeOptions::new("a", "").houses(Options::new().lease(LEASE));
    let timing = Timing { idle_commit: Duration::from_millis(20), ..Timing::of(SLOT_LEASE) };
    let a = peers.start_at(&server, options.timing(timing)).await.unwrap();
    settled(&[&a]).await;
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
                    AS 'BEGIN PERFORM pg_sleep(0.06); RETURN NEW; END';
                CREATE TRIGGER slow BEFORE UPDATE ON lockhouse.nodes FOR EACH ROW EXECUTE FUNCTION slow()";
    server.connect().await.batch_execute(slow).await.unwrap();
    let key = bucket_of(&a, Slot::new(0));
    let claims = house(&a, &key).bucket(key).claims();
    timeout(Duration::from_secs(5), claims.claim("seat", "ada", LONG)).await.unwrap().unwrap();
}
