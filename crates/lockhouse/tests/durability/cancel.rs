//! Wherever a future is dropped: what the house has and what its store has is the same.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockhouse::store::{FaultStore, Faults, MemoryStore};
use lockhouse::{
    Bucket, BusinessTransaction, FencingToken, House, LockError, LockType, Mode, NameBuf, Options, Owner,
    RecordKind, RequestError,
};

use super::gate::record;

/// All calls that can be awaited and concern durable state; other calls may be in the way.
async fn everything(bucket: &Bucket, owner: &Owner) {
    let agent = bucket.agent("web").unwrap();
    let documents = RecordKind::new("document", LockType::ReadWrite);
    owner.lock([record(1), documents.for_read(1)]).await.unwrap();
    owner.lock([documents.for_write(1)]).await.unwrap();
    let wanted = record(1);
    match agent.locks().request(wanted.name()).if_available().await {
        Err(RequestError::Unavailable(_)) => {}
        other => panic!("{other:?}"),
    }
    let stolen = agent.locks().request(wanted.name()).steal().await.unwrap();
    stolen.release().await.unwrap();
    let begun = BusinessTransaction::begin(owner)
        .run(async |step| {
            step.lock([record(2)]).await?;
            step.lock([record(3), documents.for_read(1)]).await?;
            step.release(record(3).name());
            Ok::<_, LockError>(())
        })
        .await;
    begun.unwrap();
    let failed = BusinessTransaction::resume(owner)
        .run(async |step| {
            step.lock([record(4)]).await?;
            Err::<(), _>(LockError::Closed)
        })
        .await;
    assert_eq!(failed, Err(LockError::Closed));
    let claims = bucket.claims();
    let mut claim = claims.claim("seat", "ada", Duration::from_secs(60)).await.unwrap();
    claim.renew().await.unwrap();
    claim.finalize().await.unwrap();
    claims.unassign("seat", None).await.unwrap();
    claims.claim("seat", "bob", Duration::from_secs(60)).await.unwrap().release().await.unwrap();
    owner.unlock_all().await.unwrap();
    agent.locks().query().await.unwrap();
}

/// The durable locks, claims and assignments.
#[derive(Debug, PartialEq)]
struct DurableState {
    locks: Vec<(NameBuf, Mode, FencingToken)>,
    claim: Option<(String, FencingToken)>,
    assignment: Option<(String, FencingToken)>,
}

/// Returns once everything so far is durable.
async fn durable_state(house: &House, owner: &Owner) -> DurableState {
    let claims = house.bucket("default").claims();
    let locks = owner.locks().await.unwrap();
    DurableState {
        locks: locks.into_iter().map(|lock| (lock.name, lock.mode, lock.token)).collect(),
        claim: claims.get("seat").await.unwrap().map(|claim| (claim.claimant, claim.fencing_token)),
        assignment: claims.assignment("seat").await.unwrap().map(|it| (it.claimant, it.fencing_token)),
    }
}

#[tokio::test(start_paused = true)]
async fn the_house_and_the_store_agree_wherever_a_future_is_dropped() {
    let faults = Faults { answer_lost: 100, batch_lost: 50, late: 50, stalled: 300, ..Faults::NONE };
    let mut seen = Vec::new();
    for seed in 0..5 {
        let mut polls = 0;
        loop {
            let store = MemoryStore::new().unwrap();
            let faulty = FaultStore::new(Arc::new(store.reopen()), seed, faults);
            let (done, before) = cut_and_compare(&store, faulty, polls).await;
            if !seen.contains(&before) {
                seen.push(before);
            }
            if done {
                break;
            }
            polls += 1;
            assert!(polls < 2000, "it never ends");
        }
    }
    assert!(seen.len() >= 5, "it was cut at few places: {seen:?}");
}

/// Whether everything was done after so many polls, and the durable state by then.
async fn cut_and_compare(store: &MemoryStore, faulty: FaultStore, polls: u64) -> (bool, DurableState) {
    let house = House::open(Arc::new(faulty), Options::new()).await.unwrap();
    let bucket = house.bucket("default");
    let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    let done = cut_after(polls, everything(&bucket, &owner)).await;
    let before = durable_state(&house, &owner).await;
    assert!(!bucket.has_held(), "a web lock is left after {polls} polls");

    let next = House::open(Arc::new(store.reopen()), Options::new()).await.unwrap();
    let found = next.bucket("default").owners().resume(owner.id(), owner.secret()).await.unwrap();
    assert_eq!(durable_state(&next, &found).await, before, "after {polls} polls");
    (done, before)
}

/// Polls the future at most `polls` times, letting others run in between, then drops it; whether it was done
/// by then.
async fn cut_after(polls: u64, future: impl Future<Output = ()>) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if polled.is_ready() {
            return true;
        }
        // Time passes as well, as no task has anything else to do.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}
