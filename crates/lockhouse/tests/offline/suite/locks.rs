//! Owners and their offline locks.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::time::Duration;

use lockhouse::core::{Acquired, Unlock};
use lockhouse::store::SqliteStore;
use lockhouse::{
    HolderKind, House, LockError, LockType, Mode, Name, Options, Owner, OwnerError, Owners, RecordKind,
    RequestError, Secret,
};

use super::ground::{Ground, Place, kill};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A kind whose readers take no lock.
pub(crate) fn customers() -> RecordKind {
    RecordKind::new("customer", LockType::ExclusiveWrite)
}

/// A kind with shared readers.
pub(crate) fn documents() -> RecordKind {
    RecordKind::new("document", LockType::ReadWrite)
}

pub(crate) async fn two(owners: &Owners) -> (Owner, Owner) {
    (owners.open("Ada", 20 * MINUTE).await.unwrap(), owners.open("Bob", 20 * MINUTE).await.unwrap())
}

pub(crate) fn is_conflict<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Conflict(_)))
}

pub(crate) async fn names(owner: &Owner) -> Vec<String> {
    let locks = owner.locks().await.unwrap();
    locks.iter().map(|lock| lock.name.as_name().display().into_owned()).collect()
}

pub(crate) async fn a_second_editor_is_refused_at_once_with_the_holder_and_its_start(ground: impl Ground) {
    let (house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let begun = house.wall(house.now());
    ada.lock_with([customers().for_write(7)], Some("address")).await.unwrap();
    ground.clock().advance(3 * MINUTE);
    let refused = bob.lock([customers().for_write(7)]).await.unwrap_err();
    assert_eq!(refused.to_string(), "customer/7 is not available: held by \"Ada\"");
    let LockError::Conflict(conflicts) = refused else { panic!("{refused}") };
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].name.as_name(), customers().record(7).name());
    let holder = &conflicts[0].holders[0];
    assert_eq!((holder.kind, holder.mode), (HolderKind::Offline(ada.id()), Mode::Exclusive));
    assert_eq!((holder.client_id.as_str(), holder.metadata.as_deref()), ("Ada", Some("address")));
    assert_eq!(holder.since, begun);
    assert_eq!(holder.expires_at, Some(begun + 20 * MINUTE));
    assert!(names(&bob).await.is_empty());
}

pub(crate) async fn readers_of_an_exclusive_write_kind_take_no_lock(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock([customers().for_write(7)]).await.unwrap();
    assert!(bob.lock([customers().for_read(7)]).await.unwrap().is_empty());
    assert!(names(&bob).await.is_empty());
}

pub(crate) async fn a_second_reader_of_an_exclusive_read_kind_is_refused(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let prices = RecordKind::new("price", LockType::ExclusiveRead);
    ada.lock([prices.for_read(7)]).await.unwrap();
    assert!(is_conflict(&bob.lock([prices.for_read(7)]).await));
}

pub(crate) async fn readers_share_and_a_writer_is_let_in_after_the_last_of_them(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let eve = bucket.owners().open("Eve", MINUTE).await.unwrap();
    let document = documents();
    ada.lock([document.for_read(7)]).await.unwrap();
    bob.lock([document.for_read(7)]).await.unwrap();
    assert!(is_conflict(&eve.lock([document.for_write(7)]).await));
    assert!(ada.unlock(document.record(7).name(), None).await.unwrap());
    let LockError::Conflict(conflicts) = eve.lock([document.for_write(7)]).await.unwrap_err() else {
        panic!()
    };
    assert_eq!(conflicts[0].holders.len(), 1);
    assert!(bob.unlock(document.record(7).name(), None).await.unwrap());
    eve.lock([document.for_write(7)]).await.unwrap();
    assert!(is_conflict(&ada.lock([document.for_read(7)]).await));
    assert!(is_conflict(&ada.lock([document.for_write(7)]).await));
}

pub(crate) async fn the_sole_reader_becomes_the_writer_under_a_new_token(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let read = ada.lock([documents().for_read(7)]).await.unwrap();
    bob.lock([documents().for_read(7)]).await.unwrap();
    assert!(is_conflict(&ada.lock([documents().for_write(7)]).await), "not the only one");
    bob.unlock_all().await.unwrap();
    let write = ada.lock([documents().for_write(7)]).await.unwrap();
    assert_eq!((write[0].how, write[0].mode), (Acquired::Upgraded, Mode::Exclusive));
    assert!(write[0].token > read[0].token);
    assert!(is_conflict(&bob.lock([documents().for_read(7)]).await));
}

pub(crate) async fn locking_again_changes_nothing(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let first = ada.lock([customers().for_write(7)]).await.unwrap();
    let again = ada.lock([customers().for_write(7)]).await.unwrap();
    assert_eq!((again[0].token, again[0].how), (first[0].token, Acquired::AlreadyHeld));
    assert_eq!(ada.has_lock(customers().record(7).name()).await.unwrap().unwrap().token, first[0].token);
    assert_eq!(bob.has_lock(customers().record(7).name()).await.unwrap(), None);
    assert_eq!(names(&ada).await, ["customer/7"]);
    assert!(ada.unlock(customers().record(7).name(), None).await.unwrap());
    bob.lock([customers().for_write(7)]).await.unwrap();
}

pub(crate) async fn a_stranger_or_a_stale_token_releases_nothing(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let record = customers().record(7);
    let old = ada.lock([record.for_write()]).await.unwrap()[0].token;
    assert!(!bob.unlock(record.name(), None).await.unwrap());
    assert!(!bob.unlock(record.name(), Some(old)).await.unwrap());
    assert!(ada.unlock(record.name(), Some(old)).await.unwrap());
    let new = ada.lock([record.for_write()]).await.unwrap()[0].token;
    assert!(!ada.unlock(record.name(), Some(old)).await.unwrap(), "that was another lock");
    assert_eq!(ada.locks().await.unwrap()[0].token, new);
}

pub(crate) async fn unlocking_all_frees_the_owners_own_locks_and_no_others(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock((0..5).map(|id| customers().for_write(id))).await.unwrap();
    bob.lock([customers().for_write(9)]).await.unwrap();
    assert_eq!(ada.unlock_all().await.unwrap(), 5);
    assert_eq!(ada.unlock_all().await.unwrap(), 0, "fine if there are none");
    assert_eq!(names(&bob).await, ["customer/9"]);
    bob.lock([customers().for_write(0)]).await.unwrap();
}

pub(crate) async fn several_records_are_locked_all_or_none(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock([customers().for_write(2)]).await.unwrap();
    let wanted = [customers().for_write(1), customers().for_write(2), documents().for_read(3)];
    let LockError::Conflict(conflicts) = bob.lock(wanted.clone()).await.unwrap_err() else { panic!() };
    assert_eq!(conflicts.len(), 1, "only what was in the way is named");
    assert!(names(&bob).await.is_empty());
    ada.unlock_all().await.unwrap();
    let locks = bob.lock(wanted).await.unwrap();
    let shown: Vec<_> = locks.iter().map(|lock| lock.name.as_name().display()).collect();
    assert_eq!(shown, ["customer/1", "customer/2", "document/3"]);
}

pub(crate) async fn a_root_stands_for_all_that_belongs_to_it(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let addresses = RecordKind::new("address", LockType::ExclusiveWrite);
    let customer = customers().record(7);
    ada.lock([addresses.for_write(1).under(&customer)]).await.unwrap();
    assert!(is_conflict(&bob.lock([addresses.for_write(2).under(&customer)]).await));
    assert!(is_conflict(&bob.lock([customer.for_write()]).await));
    bob.lock([addresses.for_write(2).under(&customers().record(8))]).await.unwrap();
    assert_eq!(names(&ada).await, ["customer/7"], "one lock for the whole");
}

pub(crate) async fn equal_ids_of_different_kinds_do_not_collide(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock([customers().for_write(7)]).await.unwrap();
    bob.lock([documents().for_write(7)]).await.unwrap();
}

pub(crate) async fn an_owner_that_falls_silent_ends_with_its_locks(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock([customers().for_write(7)]).await.unwrap();
    ground.clock().advance(19 * MINUTE);
    assert!(bob.touch().await.unwrap());
    assert!(is_conflict(&bob.lock([customers().for_write(7)]).await));
    ground.clock().advance(MINUTE);
    bob.lock([customers().for_write(7)]).await.unwrap();
    assert_eq!(ada.lock([customers().for_write(8)]).await, Err(LockError::OwnerEnded));
    assert!(!ada.touch().await.unwrap());
    assert!(!ada.end().await.unwrap());
    assert_eq!(ada.info().await.unwrap(), None);
}

pub(crate) async fn every_successful_call_of_an_owner_is_activity_and_no_other(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let owners = bucket.owners();
    let (ada, bob) = two(&owners).await;
    bob.lock([customers().for_write(8)]).await.unwrap();
    let customer = customers().record(7);
    for call in 0..8 {
        ground.clock().advance(19 * MINUTE);
        assert!(bob.touch().await.unwrap());
        match call {
            0 => _ = ada.lock([customers().for_write(7)]).await.unwrap(),
            1 => assert_eq!(ada.locks().await.unwrap().len(), 1),
            2 => assert!(ada.has_lock(customer.name()).await.unwrap().is_some()),
            3 => assert!(ada.has_lock(customers().record(9).name()).await.unwrap().is_none()),
            4 => assert!(ada.info().await.unwrap().is_some()),
            5 => _ = owners.resume(ada.id(), ada.secret()).await.unwrap(),
            6 => assert!(ada.unlock(customer.name(), None).await.unwrap()),
            _ => assert!(ada.touch().await.unwrap()),
        }
    }
    ground.clock().advance(19 * MINUTE);
    assert!(bob.touch().await.unwrap());
    assert!(is_conflict(&ada.lock([customers().for_write(8)]).await), "a refusal is no activity");
    let needed = [(customer.name(), None)];
    let lost = ada.commit_step(&needed, Some(Unlock::These(&[]))).await;
    assert!(matches!(lost, Err(LockError::Lost(_))), "nor is a step that fails: {lost:?}");
    ground.clock().advance(MINUTE);
    assert_eq!(owners.resume(ada.id(), ada.secret()).await.unwrap_err(), OwnerError::Unknown);
}

pub(crate) async fn an_owner_that_is_active_lives_until_its_longest_life_is_over(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let ada = bucket.owners().open("Ada", 2 * MINUTE).max_life(10 * MINUTE).await.unwrap();
    ada.lock([customers().for_write(7)]).await.unwrap();
    for _ in 0..9 {
        ground.clock().advance(MINUTE);
        assert!(ada.touch().await.unwrap());
    }
    ground.clock().advance(MINUTE);
    assert!(!ada.touch().await.unwrap());
    let bob = bucket.owners().open("Bob", MINUTE).await.unwrap();
    bob.lock([customers().for_write(7)]).await.unwrap();
}

pub(crate) async fn of_many_who_ask_at_once_exactly_one_wins_each_round(ground: impl Ground) {
    let (house, bucket) = ground.bucket().await;
    let mut all = Vec::new();
    for n in 0..8 {
        // Each with handles of its own: there is one lock table all the same.
        let owners = if n % 2 == 0 { bucket.owners() } else { house.bucket("default").owners() };
        all.push(owners.open(n.to_string(), MINUTE).await.unwrap());
    }
    for round in 0..20 {
        let wins = AtomicU32::new(0);
        let attempts = all.iter().map(|owner| async {
            if owner.lock([customers().for_write(round)]).await.is_ok() {
                wins.fetch_add(1, Ordering::Relaxed);
            }
        });
        futures(attempts).await;
        assert_eq!(wins.into_inner(), 1, "round {round}");
    }
}

#[test]
fn of_many_threads_exactly_one_gets_the_record_each_round() {
    const THREADS: usize = 8;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (house, bucket) = runtime.block_on(async {
        let store = SqliteStore::open(folder.path().join("lockhouse.db")).unwrap();
        let house = House::open(Arc::new(store), Options::new()).await.unwrap();
        let bucket = house.bucket("default");
        (house, bucket)
    });
    let (owners, start) = (bucket.owners(), Barrier::new(THREADS));
    for round in 0..20 {
        let ask = || {
            let owner = runtime.block_on(owners.open("thread", MINUTE).into_future()).unwrap();
            start.wait();
            runtime.block_on(owner.lock([customers().for_write(round)])).is_ok()
        };
        let wins = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(wins, 1, "round {round}");
    }
    runtime.block_on(house.close());
}

/// Polls all of them until each is done.
pub(crate) async fn futures<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut left: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        left.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

pub(crate) async fn records_asked_for_in_opposite_order_end_in_a_refusal_and_never_in_a_wait(
    ground: impl Ground,
) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock([customers().for_write(1)]).await.unwrap();
    bob.lock([customers().for_write(2)]).await.unwrap();
    assert!(is_conflict(&ada.lock([customers().for_write(2)]).await));
    assert!(is_conflict(&bob.lock([customers().for_write(1)]).await));
    bob.end().await.unwrap();
    ada.lock([customers().for_write(2)]).await.unwrap();
}

pub(crate) async fn only_the_secret_finds_an_owner_again(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let owners = bucket.owners();
    let (ada, bob) = two(&owners).await;
    ada.lock([customers().for_write(7)]).await.unwrap();
    let secret: Secret = ada.secret().reveal().parse().unwrap();
    let found = owners.resume(ada.id(), &secret).await.unwrap();
    assert_eq!(names(&found).await, ["customer/7"]);
    assert!(matches!(owners.resume(ada.id(), bob.secret()).await, Err(OwnerError::WrongSecret)));
    assert!(matches!(owners.resume(bob.id(), &secret).await, Err(OwnerError::WrongSecret)));
    found.end().await.unwrap();
    assert!(matches!(owners.resume(ada.id(), &secret).await, Err(OwnerError::Unknown)));
}

pub(crate) async fn an_idempotency_key_gives_the_same_owner_while_it_lives<G: Ground>(ground: G) {
    let (house, bucket) = ground.bucket().await;
    let owners = bucket.owners();
    let open = |owners: &Owners, key: &str| owners.open("Ada", 20 * MINUTE).idempotency_key(key);
    let first = open(&owners, "k1").max_life(60 * MINUTE).metadata("m").await.unwrap();
    let is_first = |again: Owner| assert_eq!((again.id(), again.secret()), (first.id(), first.secret()));
    is_first(open(&owners, "k1").max_life(60 * MINUTE).metadata("m").await.unwrap());
    let others = [open(&owners, "k2").await.unwrap(), owners.open("Ada", 20 * MINUTE).await.unwrap()];
    assert!(others.iter().all(|other| other.id() != first.id() && other.secret() != first.secret()));
    for key in ["", "a b", "é", &"k".repeat(256)] {
        let refused = open(&owners, key).await.unwrap_err();
        assert!(
            matches!(&refused, OwnerError::Quota(quota) if quota.field == "idempotency_key"),
            "{refused}"
        );
    }
    if G::KEEPS {
        drop((owners, bucket));
        kill(house).await;
        let (_house, bucket) = ground.bucket().await;
        let owners = bucket.owners();
        is_first(open(&owners, "k1").max_life(60 * MINUTE).metadata("m").await.unwrap());
        refuses_other_terms(&owners).await;
    } else {
        refuses_other_terms(&owners).await;
    }
}

/// The key `k1` stands for an owner of other terms than each of these.
async fn refuses_other_terms(owners: &Owners) {
    let (ttl, life) = (20 * MINUTE, 60 * MINUTE);
    for new in [
        owners.open("Bob", ttl).max_life(life).metadata("m"),
        owners.open("Ada", ttl + MINUTE).max_life(life).metadata("m"),
        owners.open("Ada", ttl).max_life(life + MINUTE).metadata("m"),
        owners.open("Ada", ttl).metadata("m"),
        owners.open("Ada", ttl).max_life(life),
    ] {
        assert_eq!(new.idempotency_key("k1").await.unwrap_err(), OwnerError::KeyMismatch);
    }
}

pub(crate) async fn of_many_who_open_with_one_key_all_get_one_owner(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let opening = (0..16).map(|_| {
        let open = bucket.owners().open("Ada", 20 * MINUTE).idempotency_key("k");
        tokio::spawn(open.into_future())
    });
    let mut opened = Vec::new();
    for opening in opening.collect::<Vec<_>>() {
        opened.push(opening.await.unwrap().unwrap().id());
    }
    opened.dedup();
    assert_eq!(opened.len(), 1, "{opened:?}");
}

pub(crate) async fn web_locks_and_offline_locks_keep_each_other_out(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, _) = two(&bucket.owners()).await;
    let agent = bucket.agent("job");
    let record = customers().record(7);
    ada.lock([record.for_write()]).await.unwrap();
    let refused = agent.locks().request(record.name()).if_available().await.unwrap_err();
    let RequestError::Unavailable(unavailable) = refused else { panic!("{refused}") };
    assert_eq!(unavailable.holders[0].kind, HolderKind::Offline(ada.id()));
    let mut waiting = pin!(agent.locks().request(record.name()).into_future());
    assert!(std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
    assert!(ada.unlock(record.name(), None).await.unwrap());
    let held = waiting.await.unwrap();
    let LockError::Conflict(conflicts) = ada.lock([record.for_write()]).await.unwrap_err() else { panic!() };
    assert_eq!(conflicts[0].holders[0].kind, HolderKind::Web);
    assert_eq!(conflicts[0].holders[0].client_id, "job");
    held.release().await.unwrap();
    ada.lock([record.for_write()]).await.unwrap();
}

pub(crate) async fn refusals_leave_nothing_behind<G: Ground>(ground: G) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock([customers().for_write(7)]).await.unwrap();
    let before = bucket.len();
    for _ in 0..G::OFTEN {
        assert!(is_conflict(&bob.lock([customers().for_write(7), customers().for_write(8)]).await));
    }
    assert_eq!(bucket.len(), before);
    bob.unlock_all().await.unwrap();
    ada.end().await.unwrap();
    assert_eq!(bucket.len(), 0);
}

pub(crate) async fn owners_and_locks_outlive_a_restart_with_growing_tokens<G: Ground>(ground: G) {
    if !G::KEEPS {
        return;
    }
    let (house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let old = ada.lock([documents().for_read(7), customers().for_write(8)]).await.unwrap();
    let (id, secret) = (ada.id(), ada.secret().clone());
    bob.end().await.unwrap();
    drop((ada, bob, bucket));
    kill(house).await;

    let (_house, bucket) = ground.bucket().await;
    let ada = bucket.owners().resume(id, &secret).await.unwrap();
    let kept = ada.locks().await.unwrap();
    let what = |lock: &lockhouse::OfflineLock| (lock.name.clone(), lock.mode, lock.token);
    assert_eq!(kept.iter().map(what).collect::<Vec<_>>(), old.iter().map(what).collect::<Vec<_>>());
    let eve = bucket.owners().open("Eve", MINUTE).await.unwrap();
    assert!(eve.id() > ada.id(), "numbers are never given again");
    assert!(is_conflict(&eve.lock([customers().for_write(8)]).await));
    let new = eve.lock([documents().for_read(7)]).await.unwrap();
    assert!(new[0].token > old[1].token);
    // Its TTL runs its full length anew, and a tenth more at most.
    ground.clock().advance(19 * MINUTE);
    assert!(is_conflict(
        &bucket.owners().open("Fay", MINUTE).await.unwrap().lock([customers().for_write(8)]).await
    ));
    ground.clock().advance(4 * MINUTE);
    bucket.owners().open("Gil", MINUTE).await.unwrap().lock([customers().for_write(8)]).await.unwrap();
}

pub(crate) async fn a_lock_whose_future_is_dropped_is_taken_back(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock([documents().for_read(1)]).await.unwrap();
    for polls in 0..4 {
        let mut lock = Box::pin(ada.lock([documents().for_write(1), customers().for_write(2)]));
        let mut done = false;
        for _ in 0..polls {
            done = done
                || std::future::poll_fn(|context| Poll::Ready(lock.as_mut().poll(context).is_ready())).await;
            tokio::task::yield_now().await;
        }
        drop(lock);
        if done {
            assert_eq!(ada.unlock_all().await.unwrap(), 2);
            ada.lock([documents().for_read(1)]).await.unwrap();
        }
        bob.lock([documents().for_read(1), customers().for_write(2)]).await.unwrap();
        assert_eq!(names(&ada).await, ["document/1"]);
        bob.unlock_all().await.unwrap();
    }
}

pub(crate) async fn bounds_are_refused_by_name(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let ada = bucket.owners().open("Ada", MINUTE).await.unwrap();
    let refused = ada.lock((0..61).map(|id| customers().for_write(id))).await.unwrap_err();
    let LockError::Quota(quota) = &refused else { panic!("{refused}") };
    assert_eq!(quota.field, "locks");
    let refused = bucket.owners().open("Ada", Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.to_string(), "ttl: 0 ms, but from 1 ms to 2592000000 ms are allowed");
    let refused = bucket.owners().open("A".repeat(257), MINUTE).await.unwrap_err();
    assert_eq!(refused.to_string(), "label: 257 bytes, but at most 256 bytes are allowed");
    let long = "n".repeat(5000);
    let refused = ada.lock_names(&[(Name::new(&long).unwrap(), Mode::Shared)], None).await.unwrap_err();
    assert_eq!(refused.to_string(), "name: 5000 units, but at most 4096 units are allowed");
}
