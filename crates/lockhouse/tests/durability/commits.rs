//! Group commit, and stores that do not answer as they should.

use std::time::Duration;

use lockhouse::store::{CommitOutcome, StoreUnavailable, Write};
use lockhouse::{BucketKey, ClaimError, LockError, LockType, RecordKind, StoreError, StoreState};

use super::gate::{Gate, poll, record, settle};

fn names(writes: &[Write]) -> Vec<String> {
    let changes = writes.iter().filter_map(|write| match write {
        Write::Change { change, .. } => Some(change),
        _ => None,
    });
    changes
        .flat_map(lockhouse::core::Change::names)
        .map(|name| name.as_name().display().into_owned())
        .collect()
}

#[tokio::test]
async fn what_comes_during_a_commit_goes_together_in_the_next() {
    let gate = Gate::new();
    let (house, _bucket, owner) = gate.shut_house().await;
    let other = house.bucket("other");
    let mut first = Box::pin(owner.lock([record(0)]));
    assert!(poll(&mut first).await.is_pending());
    let mut more: Vec<_> = (1..50).map(|id| Box::pin(owner.lock([record(id)]))).collect();
    for lock in &mut more {
        assert!(poll(lock).await.is_pending());
    }
    let claims = other.claims();
    let mut claim = claims.claim("seat", "ada", Duration::from_secs(60)).into_future();
    assert!(poll(&mut claim).await.is_pending());
    gate.open();
    first.await.unwrap();
    for lock in more {
        lock.await.unwrap();
    }
    claim.await.unwrap();
    let batches = gate.batches();
    assert_eq!(batches.len(), 2);
    assert_eq!(names(&batches[0].writes), ["record/0"]);
    assert_eq!(names(&batches[1].writes).len(), 50);
    assert_eq!(batches[1].first_seq, batches[0].last_seq() + 1);
}

#[tokio::test]
async fn a_command_is_never_split_and_no_bucket_starves_another() {
    let gate = Gate::new();
    let (house, bucket, owner) = gate.shut_house().await;
    let mut first = Box::pin(owner.lock([record(0)]));
    assert!(poll(&mut first).await.is_pending());
    // More than a commit takes, as commands of 60 changes each.
    let kind = RecordKind::new("many", LockType::ExclusiveWrite);
    let mut many = Vec::new();
    for command in 0..200_u32 {
        let wanted = (0..60).map(|id| kind.for_write(command * 60 + id)).collect::<Vec<_>>();
        let mut lock = Box::pin(owner.lock(wanted));
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(lock.as_mut().poll(context).is_pending()));
        assert!(polled.await);
        many.push(lock);
    }
    let claims = house.bucket("quiet").claims();
    let mut claim = claims.claim("seat", "ada", Duration::from_secs(60)).into_future();
    assert!(poll(&mut claim).await.is_pending());
    gate.let_through(2);
    first.await.unwrap();
    claim.await.unwrap();
    gate.open();
    for lock in many {
        assert_eq!(lock.await.unwrap().len(), 60);
    }
    let batches = gate.batches();
    assert!(batches.len() >= 4, "{} sections", batches.len());
    for batch in &batches[1..] {
        assert!(batch.writes.len() < 5000);
        let of_many = names(&batch.writes).iter().filter(|name| name.starts_with("many/")).count();
        assert_eq!(of_many % 60, 0, "a command was split");
    }
    drop(bucket);
}

/// The waiting writes make about three commits; those of the quiet tenant, in one bucket, are less than half
/// of one. Returns how many writes of each commit are of the quiet one, if the loud one has all these
/// partitions.
async fn writes_of_a_quiet_one(quiet: &str, loud: impl Fn(u32) -> String) -> Vec<usize> {
    let gate = Gate::new();
    let house = gate.house().await;
    let mut owners = Vec::new();
    let of_loud = (0..100).map(|number| ("loud", number, loud(number)));
    for (who, bucket, partition) in of_loud.chain([("quiet", 0, quiet.to_owned())]) {
        let bucket = house.bucket(BucketKey { bucket: bucket.to_string(), partition });
        let owner = bucket.owners().open(who, Duration::from_secs(3600)).await.unwrap();
        owners.push((who, bucket, owner));
    }
    gate.batches();
    gate.shut();
    let (_, _, quiet) = &owners[100];
    let mut first = Box::pin(quiet.lock([record(0)]));
    assert!(poll(&mut first).await.is_pending());
    let mut waiting = Vec::new();
    for (who, _, owner) in &owners {
        let kind = RecordKind::new(*who, LockType::ExclusiveWrite);
        for command in 0..if *who == "quiet" { 30_u32 } else { 2 } {
            let wanted = (0..60).map(|id| kind.for_write(command * 60 + id)).collect::<Vec<_>>();
            let mut lock = Box::pin(owner.lock(wanted));
            assert!(poll(&mut lock).await.is_pending());
            waiting.push(lock);
        }
    }
    gate.open();
    first.await.unwrap();
    for lock in waiting {
        assert_eq!(lock.await.unwrap().len(), 60);
    }
    let batches = gate.batches();
    let of_quiet = |writes: &[Write]| names(writes).iter().filter(|name| name.starts_with("quiet/")).count();
    let written: Vec<_> = batches[1..].iter().map(|batch| of_quiet(&batch.writes)).collect();
    assert!(written.len() >= 3, "{written:?}");
    written
}

#[tokio::test]
async fn a_partition_with_many_buckets_has_no_more_of_a_commit_than_another() {
    let written = writes_of_a_quiet_one("quiet", |_| "loud".to_owned()).await;
    assert_eq!(written[0], 1800, "{written:?}");
}

#[tokio::test]
async fn a_tenant_with_many_partitions_has_no_more_of_a_commit_than_another() {
    let quiet = "\u{1f}quiet\u{1f}\u{1f}\u{1f}";
    let written =
        writes_of_a_quiet_one(quiet, |number| format!("\u{1f}loud\u{1f}\u{1f}\u{1f}{number}")).await;
    assert_eq!(written[0], 1800, "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_unknown_outcome_is_sent_again_as_it_is() {
    let gate = Gate::new();
    let (_house, _bucket, owner) = gate.shut_house().await;
    gate.then([CommitOutcome::Unknown, CommitOutcome::Unknown]);
    gate.open();
    owner.lock([record(1)]).await.unwrap();
    let batches = gate.batches();
    assert_eq!(batches.len(), 3);
    assert!(batches.iter().all(|batch| *batch == batches[0]));
}

fn away() -> CommitOutcome {
    CommitOutcome::Refused(StoreUnavailable::Away { place: "the store".into(), why: "unplugged".into() })
}

#[tokio::test(start_paused = true)]
async fn while_the_store_refuses_new_durable_commands_are_unavailable_and_the_rest_goes_on() {
    let gate = Gate::new();
    let (house, bucket, owner) = gate.shut_house().await;
    gate.then((0..5).map(|_| away()));
    gate.let_through(1);
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let refused = tokio::time::timeout(Duration::from_secs(10), owner.lock([record(2)])).await;
    let refused = refused.expect("it is refused at once").unwrap_err();
    let LockError::Store(StoreError::Unavailable { why, retry_after }) = &refused else {
        panic!("{refused}")
    };
    assert_eq!(why, "the store cannot be reached (unplugged); it is tried again");
    assert!(*retry_after > Duration::ZERO && *retry_after <= Duration::from_secs(1));
    let claim = bucket.claims().claim("seat", "ada", Duration::from_secs(60)).await.unwrap_err();
    assert!(matches!(claim, ClaimError::Store(StoreError::Unavailable { .. })));
    assert!(matches!(house.store_state(), StoreState::Unavailable { .. }));
    assert!(owner.touch().await.unwrap(), "nothing is written");
    let agent = bucket.agent("web").unwrap();
    drop(agent.locks().request("other").await.unwrap());
    let mut serving = Box::pin(house.serving());
    assert!(poll(&mut serving).await.is_pending());
    gate.open();
    lock.await.unwrap();
    assert_eq!(serving.await, StoreState::Serving);
    assert_eq!(house.store_state(), StoreState::Serving);
    owner.lock([record(2)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_not_left_waiting_for_a_store_that_is_away() {
    let gate = Gate::new();
    let (_house, bucket, owner) = gate.shut_house().await;
    let (mut early, claims) = (Box::pin(bucket.snapshot()), bucket.claims());
    assert!(poll(&mut early).await.is_ready(), "nothing is under way");
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let (mut snapshot, mut assignments) = (Box::pin(bucket.snapshot()), Box::pin(claims.assignments()));
    assert!(poll(&mut snapshot).await.is_pending(), "the store may answer soon");
    assert!(poll(&mut assignments).await.is_pending());

    gate.then((0..5).map(|_| away()));
    gate.let_through(1);
    assert!(matches!(snapshot.await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(assignments.await, Err(ClaimError::Store(StoreError::Unavailable { .. }))));
    assert!(matches!(bucket.snapshot().await, Err(StoreError::Unavailable { .. })));
    gate.open();
    lock.await.unwrap();
    assert_eq!(bucket.snapshot().await.unwrap().held.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_nothing_for_long_is_unavailable() {
    let gate = Gate::new();
    let (house, _bucket, owner) = gate.shut_house().await;
    gate.then((0..5).map(|_| CommitOutcome::Unknown));
    gate.let_through(4);
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(house.store_state(), StoreState::Serving);
    gate.let_through(1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(matches!(house.store_state(), StoreState::Unavailable { .. }));
    gate.open();
    lock.await.unwrap();
}

#[tokio::test]
async fn a_bucket_that_is_forgotten_is_dropped_from_the_store_and_its_mark_stays() {
    let gate = Gate::new();
    let house = gate.house().await;
    let agent = house.bucket("short").agent("web").unwrap();
    let first = agent.locks().request("n").await.unwrap().fencing_token();
    drop(agent);
    settle().await;
    assert!(matches!(gate.writes()[..], [Write::Change { .. }, Write::BucketDropped { .. }]));
    house.close().await;
    let gate = Gate::before(gate.inner.reopen());
    let house = gate.house().await;
    assert!(house.buckets().is_empty());
    let agent = house.bucket("another").agent("web").unwrap();
    assert!(agent.locks().request("n").await.unwrap().fencing_token() > first);
}

#[tokio::test]
async fn a_bucket_with_durable_state_is_not_forgotten() {
    let gate = Gate::new();
    let house = gate.house().await;
    let claim = house.bucket("seats").claims().claim("a", "ada", Duration::from_secs(60)).await.unwrap();
    let token = claim.token().clone();
    drop(claim);
    settle().await;
    assert_eq!(house.buckets().len(), 1);
    // Nor is one that was restored.
    house.close().await;
    let gate = Gate::before(gate.inner.reopen());
    let house = gate.house().await;
    settle().await;
    assert_eq!(house.buckets().len(), 1);
    house.bucket("seats").claims().release("a", &token).await.unwrap();
    settle().await;
    assert!(house.buckets().is_empty());
    assert!(matches!(gate.writes().last(), Some(Write::BucketDropped { .. })));
}

#[tokio::test]
async fn one_lock_is_found_without_a_look_at_the_others_and_reported_once_it_is_kept() {
    let gate = Gate::new();
    let house = gate.house().await;
    let owner = house.bucket("default").owners().open("Ada", Duration::from_secs(600)).await.unwrap();
    for first in (0..6000).step_by(60) {
        owner.lock((first..first + 60).map(record)).await.unwrap();
    }
    // Ten times as many looks at one as at all, which is no more work only if each finds it at once.
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(owner.locks().await.unwrap().len(), 6000);
    }
    let looks_at_all = begun.elapsed();
    let (last, none) = (record(5999), record(6000));
    let begun = std::time::Instant::now();
    for _ in 0..100 {
        assert!(owner.has_lock(last.name()).await.unwrap().is_some());
        assert_eq!(owner.has_lock(none.name()).await.unwrap(), None);
    }
    assert!(begun.elapsed() < looks_at_all, "{:?} and not {looks_at_all:?}", begun.elapsed());

    gate.shut();
    let mut unlock = Box::pin(owner.unlock(last.name(), None));
    assert!(poll(&mut unlock).await.is_pending());
    let mut asked = Box::pin(owner.has_lock(last.name()));
    assert!(poll(&mut asked).await.is_pending());
    gate.open();
    assert_eq!(asked.await.unwrap(), None);
    assert!(unlock.await.unwrap());
}
