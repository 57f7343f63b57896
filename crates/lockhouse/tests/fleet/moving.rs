//! Slots move: nodes come, go and die.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse::core::{Acquire, Command, NewRequest, Outcome};
use lockhouse::fleet::{BucketPlace, FleetNode, NodeOptions, NodePhase, NotReleased, owner_of};
use lockhouse::store::Slot;
use lockhouse::{ManualClock, Mode, Name, Options, StoreState};
use tokio::time::sleep;

use super::nodes::*;
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_ready_once_it_has_its_share_of_the_slots() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let mut nodes: Vec<FleetNode> = Vec::new();
    for label in ["a", "b"] {
        let node = peers.start(&server, label).await.unwrap();
        nodes.push(node.clone());
        assert!(node.why_not_ready().is_some());
        poll_until(|| node.why_not_ready().is_none()).await;
        let nodes: Vec<&FleetNode> = nodes.iter().collect();
        let labels: Vec<&str> = nodes.iter().map(|node| node.label()).collect();
        let is_at_home = |(slot, by): (&Slot, &Vec<String>)| by[..] == [owner_of(*slot, &labels).unwrap()];
        assert!(served(&nodes).iter().all(is_at_home), "{:?}", served(&nodes));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_share_the_slots_and_a_node_that_leaves_hands_on_its_own() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let b = peers.start(&server, "b").await.unwrap();
    let c = peers.start(&server, "c").await.unwrap();
    settled(&[&a, &b, &c]).await;
    // Each gets to know where the buckets of the others are.
    for slot in (0..SLOTS).map(Slot::new) {
        let (key, by) = (bucket_of(&a, slot), served(&[&a, &b, &c])[&slot][0].clone());
        for node in [&a, &b, &c] {
            // By its next poll.
            poll_until(|| match node.find(&key) {
                BucketPlace::Here(_) => node.label() == by,
                BucketPlace::There(other) => *other.label == *by,
                BucketPlace::Moving => false,
            })
            .await;
        }
    }
    let of_b = slots_of(&b, &[&a, &b, &c]);
    let begun = Instant::now();
    b.leave().await;
    assert_eq!(b.phase(), NodePhase::Left);
    settled(&[&a, &c]).await;
    println!("the slots of a node that has left are served after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let now = served(&[&a, &c]);
    assert!(of_b.iter().all(|slot| now[slot].len() == 1));
    // It still knows where they are.
    let key = bucket_of(&b, of_b[0]);
    poll_until(|| matches!(b.find(&key), BucketPlace::There(node) if *node.label == *now[&of_b[0]][0])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_with_what_is_held_in_it_and_only_that_waits() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start_with(&server, "a", LONG).await;
    settled(&[&a]).await;
    let keys: Vec<_> = (0..SLOTS).map(|slot| bucket_of(&a, Slot::new(slot))).collect();
    let mut held = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let session = Session::begin_with(LONG, &house(&a, key), key, &format!("secret-{number}")).await;
        let lock = session.lock("held").await;
        held.push((session, lock));
    }
    let b = peers.start_with(&server, "b", LONG).await;
    settled(&[&a, &b]).await;
    let moved = slots_of(&b, &[&a, &b]);
    for slot in moved {
        let (key, house_of_b) = (&keys[usize::from(slot.get())], house(&b, &keys[usize::from(slot.get())]));
        let (former, lock) = &held[usize::from(slot.get())];
        assert!(matches!(former.port.bucket().ended().await, StoreState::Closed(_)));
        assert!(house_of_b.waits_for_holders());
        assert_eq!(b.release(slot).await, Err(NotReleased::Recovers));
        let other = Session::begin_with(LONG, &house_of_b, key, "other").await;
        let begun = Instant::now();
        let (higher, _) = other.lock("free").await;
        assert!(begun.elapsed() < LONG / 10 && higher > lock.0, "{:?}", begun.elapsed());
        let name = Name::new("held").unwrap();
        let request = NewRequest::new(other.agent, name, Acquire::IfAvailable(Mode::Exclusive));
        other.port.submit(4, Command::Request(request));
        assert!(matches!(outcome(&other.port, 4).await, Outcome::Refused(_)));
        let returned = Session::begin_with(LONG, &house_of_b, key, "new").await;
        assert_eq!(returned.reclaim("held", lock).await, lock.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_others_go_on_and_grant_what_was_not_held_first() {
    let (server, peers) = (Arc::new(Server::start(&[])), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    let mut b = Process::start(&peers, &server, "b").await;
    settled(&[&a, &b.node]).await;
    let of_b = slots_of(&b.node, &[&a, &b.node]);
    let (announced, quiet) = (bucket_of(&a, of_b[0]), bucket_of(&a, of_b[1]));
    let session = Session::begin(&house(&b.node, &announced), &announced, "s").await;
    let lock = session.lock("held").await;
    let claims = house(&b.node, &quiet).bucket(quiet.clone()).claims();
    let claim = claims.claim("seat", "ada", Duration::from_secs(60)).await.unwrap();

    let confirmed = b.node.view();
    let killed = Instant::now();
    b.kill();
    assert!(confirmed.own.is_some());
    let house_of_quiet = house_in_time(&a, &quiet).await;
    let claims = house_of_quiet.bucket(quiet.clone()).claims();
    let next = claims.claim("other seat", "bob", Duration::from_secs(60)).await.unwrap();
    println!("a durable grant {:?} after the kill", killed.elapsed());
    assert!(killed.elapsed() < SLOT_LEASE + Duration::from_secs(2));
    assert!(next.fencing_token() > claim.fencing_token());
    assert!(claims.claim("seat", "bob", Duration::from_secs(60)).await.is_err());

    let house_of_announced = house_in_time(&a, &announced).await;
    assert!(house_of_announced.waits_for_holders());
    let returned = Session::begin(&house_of_announced, &announced, "new").await;
    assert_eq!(returned.reclaim("held", &lock).await, lock.0);
    let other = Session::begin(&house_of_announced, &announced, "other").await;
    other.lock("free").await;
    let after = killed.elapsed();
    println!("a web lock {after:?} after the kill");
    // The last confirmed commit of the dead node was sent before the kill, at most one idle commit.
    assert!(after >= SLOT_LEASE + LEASE - SLOT_LEASE / 4, "{after:?}");
    assert!(after < SLOT_LEASE + LEASE + Duration::from_secs(2), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_served_only_once_its_former_owner_is_silent() {
    let (server, peers) = (Arc::new(Server::start(&[])), InProcess::default());
    let b = peers.start(&server, "b").await.unwrap();
    let mut former = Process::start(&peers, &server, "a").await;
    settled(&[&former.node, &b]).await;
    let key = bucket_of(&b, slots_of(&former.node, &[&former.node, &b])[0]);
    former.kill();
    // A person declares it dead, which has hardly stood still by then.
    let client = server.connect().await;
    client.batch_execute("DELETE FROM lockhouse.nodes WHERE label = 'a'").await.unwrap();
    let begun = Instant::now();
    house_in_time(&b, &key).await;
    assert!(begun.elapsed() >= SLOT_LEASE / 2, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < SLOT_LEASE + Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_leaps_shortens_neither_the_wait_for_a_former_owner_nor_the_recovery_after_it() {
    let (server, peers, clock) = (Arc::new(Server::start(&[])), InProcess::default(), ManualClock::new());
    let moved = clock.clone();
    tokio::spawn(async move {
        let mut last = Instant::now();
        loop {
            sleep(Duration::from_millis(10)).await;
            let now = Instant::now();
            moved.advance(now - std::mem::replace(&mut last, now));
        }
    });
    let houses = Options::new().lease(LEASE).clock(&clock);
    let b = NodeOptions::new("b", "http://b").clock(&clock).houses(houses);
    let b = peers.start_as(&server, b).await.unwrap();
    let mut former = Process::start(&peers, &server, "a").await;
    settled(&[&former.node, &b]).await;
    let slot = slots_of(&former.node, &[&former.node, &b])[0];
    let key = bucket_of(&b, slot);
    let session = Session::begin(&house(&former.node, &key), &key, "s").await;
    session.lock("held").await;
    former.kill();
    let client = server.connect().await;
    client.batch_execute("DELETE FROM lockhouse.nodes WHERE label = 'a'").await.unwrap();
    let begun = Instant::now();
    let is_opening = || b.view().slots.iter().any(|known| known.slot == slot && known.state == "opening");
    poll_until(is_opening).await;
    assert!(begun.elapsed() < SLOT_LEASE / 2, "{:?}", begun.elapsed());
    clock.advance(10 * (SLOT_LEASE + LEASE));
    let house_of_b = house_in_time(&b, &key).await;
    let waited = begun.elapsed();
    assert!(waited >= SLOT_LEASE / 2, "{waited:?}");
    let other = Session::begin(&house_of_b, &key, "other").await;
    other.lock("free").await;
    let recovered = begun.elapsed() - waited;
    assert!(recovered >= LEASE / 10 * 9 && recovered < LEASE + Duration::from_secs(2), "{recovered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_declared_dead_loses_its_houses_and_joins_anew() {
    let (server, peers) = (Server::start(&[]), InProcess::default());
    let a = peers.start(&server, "a").await.unwrap();
    settled(&[&a]).await;
    let (id, key) = (a.id().unwrap(), bucket_of(&a, Slot::new(0)));
    let before = house(&a, &key);
    let session = Session::begin(&before, &key, "s").await;
    session.lock("n").await;
    // The first life lasts longer than the second one takes to begin.
    sleep(4 * SLOT_LEASE).await;
    let client = server.connect().await;
    client.batch_execute("DELETE FROM lockhouse.nodes").await.unwrap();
    assert_eq!(before.ended().await, StoreState::Fenced);
    let lost = Instant::now();
    // The other houses of the former life are lost a moment later than this one.
    poll_until(|| a.id().is_some_and(|now| now != id)).await;
    settled(&[&a]).await;
    assert!(lost.elapsed() < 3 * SLOT_LEASE, "{:?}", lost.elapsed());
    let after = house(&a, &key);
    assert_ne!(after.life(), before.life());
    assert!(session.port.bucket().slot_lease().unwrap().is_mute());
}
