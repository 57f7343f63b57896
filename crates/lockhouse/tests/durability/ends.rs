//! How a house ends: closed, fenced, failed, forgotten.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockhouse::core::{Acquire, Command, Mode, Name, NewAgent, NewRequest, Outcome};
use lockhouse::store::{MemoryStore, Slot, Store, WriterId};
use lockhouse::{
    BusinessTransaction, ClaimError, House, Left, LockError, Loss, Notice, Options, OwnerError, RequestError,
    StoreError, StoreState,
};
use tokio::time::{Instant, timeout};

use super::gate::{Gate, drained, manual, poll, record, settle};

#[tokio::test]
async fn a_fenced_house_loses_every_lock_and_notifies_every_holder() {
    let gate = Gate::new();
    let (house, bucket, owner) = gate.shut_house().await;
    let agent = bucket.agent("web").unwrap();
    let held = agent.locks().request("held").await.unwrap();
    let waiter = bucket.agent("waiter").unwrap();
    let mut waiting = waiter.locks().request("held").into_future();
    assert!(poll(&mut waiting).await.is_pending());
    let port = bucket.port(10);
    port.submit(1, Command::Join(NewAgent::new("far")));
    let [Notice::Answer { outcome: Outcome::Joined(far), .. }] = drained(&port)[..] else { panic!() };
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let wanted = record(1);
    let ask = NewRequest::new(far, wanted.name(), Acquire::IfAvailable(Mode::Shared));
    port.submit(2, Command::Request(ask));
    assert!(drained(&port).is_empty(), "that it is refused may not be told yet");
    let mut refused = agent.locks().request(wanted.name()).if_available().into_future();
    assert!(poll(&mut refused).await.is_pending());

    gate.inner.take_slot(Slot::ONLY, WriterId(1), &mut |_| {}).await.unwrap();
    gate.open();
    assert_eq!(house.ended().await, StoreState::Fenced);
    assert_eq!(held.lost().await, Loss::Fenced);
    assert_eq!(held.loss(), Some(Loss::Fenced));
    assert!(matches!(waiting.await, Err(RequestError::NoStore(Loss::Fenced))));
    assert_eq!(drained(&port), [Notice::Over(Loss::Fenced)]);
    assert_eq!(lock.await, Err(LockError::Store(unknown())), "nobody knows whether it was locked");
    assert!(matches!(refused.await, Err(RequestError::NoStore(Loss::Fenced))));

    assert_eq!(owner.lock([record(2)]).await, Err(LockError::Store(StoreError::Fenced)));
    let claim = bucket.claims().claim("seat", "ada", Duration::from_secs(60)).await;
    assert!(matches!(claim, Err(ClaimError::Store(StoreError::Fenced))));
    let late = agent.locks().request("other").await;
    assert!(matches!(late, Err(RequestError::NoStore(Loss::Fenced))), "{late:?}");
    let new = house.bucket("new").agent("web").unwrap();
    let late = new.locks().request("n").if_available().await;
    assert!(matches!(late, Err(RequestError::NoStore(Loss::Fenced))), "{late:?}");
    assert_eq!(held.release().await, Err(Loss::Fenced));
    assert_eq!(house.close().await, StoreState::Fenced);
}

/// The outcome of what was under way when another process took the store over.
fn unknown() -> StoreError {
    StoreError::OutcomeUnknown { why: "another process has taken the store over".to_owned() }
}

#[tokio::test]
async fn what_was_carried_out_and_never_answered_is_unknown_and_what_was_refused_has_not_happened() {
    let gate = Gate::new();
    let (house, bucket, owner) = gate.shut_house().await;
    gate.open();
    let claims = bucket.claims();
    let [seat, other] = [claims.claim("seat", "ada", MINUTE), claims.claim("other", "ada", MINUTE)];
    let (seat, other) = (seat.await.unwrap(), other.await.unwrap());
    let assigned = claims.claim("assigned", "ada", MINUTE).await.unwrap().finalize().await.unwrap();
    owner.lock([record(1)]).await.unwrap();
    let ended = bucket.owners().open("Eve", MINUTE).await.unwrap();

    gate.shut();
    let (owners, agent) = (bucket.owners(), bucket.agent("web").unwrap());
    let stolen = record(1);
    let mut steal = agent.locks().request(stolen.name()).steal().into_future();
    assert!(poll(&mut steal).await.is_pending());
    let mut open = Box::pin(owners.open("Bob", MINUTE).into_future());
    let mut claim = Box::pin(claims.claim("new", "bob", MINUTE).into_future());
    let mut finalize = Box::pin(seat.finalize());
    let mut release = Box::pin(other.release());
    let mut unlock = Box::pin(owner.unlock_all());
    let mut end = Box::pin(ended.end());
    let mut unassign = Box::pin(claims.unassign("assigned", None));
    assert!(poll(&mut open).await.is_pending() && poll(&mut claim).await.is_pending());
    assert!(poll(&mut finalize).await.is_pending() && poll(&mut release).await.is_pending());
    assert!(poll(&mut unlock).await.is_pending() && poll(&mut end).await.is_pending());
    assert!(poll(&mut unassign).await.is_pending());
    let mut get = Box::pin(claims.get("new"));
    assert!(poll(&mut get).await.is_pending());
    gate.inner.take_slot(Slot::ONLY, WriterId(1), &mut |_| {}).await.unwrap();
    gate.open();
    assert_eq!(house.ended().await, StoreState::Fenced);

    assert_eq!(open.await.unwrap_err(), OwnerError::Store(unknown()));
    assert_eq!(claim.await.unwrap_err(), ClaimError::Store(unknown()));
    assert_eq!(finalize.await, Err(ClaimError::Store(unknown())));
    assert_eq!(release.await, Err(ClaimError::Store(unknown())));
    assert_eq!(unlock.await, Err(unknown()));
    assert_eq!(end.await, Err(unknown()));
    assert_eq!(unassign.await, Err(ClaimError::Store(unknown())));
    assert_eq!(steal.await.unwrap_err(), RequestError::OutcomeUnknown);
    assert_eq!(get.await, Err(ClaimError::Store(StoreError::Fenced)), "a question changes nothing");

    let again = seat.finalize().await;
    assert_eq!(again, Err(ClaimError::Store(StoreError::Fenced)), "it is refused, and not carried out");
    assert_eq!(claims.unassign("assigned", Some(assigned.fencing_token)).await, again.map(|_| true));
    assert_eq!(owner.end().await, Err(StoreError::Fenced));
    let late = agent.locks().request("seat").steal().await;
    assert_eq!(late.unwrap_err(), RequestError::NoStore(Loss::Fenced));
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn no_request_waits_in_a_bucket_that_begins_after_the_store_was_lost() {
    let gate = Gate::new();
    let (house, _, owner) = gate.shut_house().await;
    gate.inner.take_slot(Slot::ONLY, WriterId(1), &mut |_| {}).await.unwrap();
    gate.open();
    assert_eq!(owner.lock([record(1)]).await, Err(LockError::Store(unknown())));
    let late = house.bucket("late");
    let agent = late.agent("web").unwrap();
    let mut waiting = agent.locks().request("n").into_future();
    let answer = poll(&mut waiting).await;
    assert!(matches!(answer, Poll::Ready(Err(RequestError::NoStore(Loss::Fenced)))), "{answer:?}");
    let port = late.port(10);
    port.submit(1, Command::Join(NewAgent::new("far")));
    let received = drained(&port);
    assert!(matches!(received[..], [Notice::Answer { .. }, Notice::Over(Loss::Fenced)]), "{received:?}");
}

#[tokio::test]
async fn a_store_that_cannot_be_trusted_ends_the_house() {
    let gate = Gate::new();
    let (house, bucket, owner) = gate.shut_house().await;
    let agent = bucket.agent("web").unwrap();
    let held = agent.locks().request("held").await.unwrap();
    gate.inner.close().await.unwrap();
    gate.open();
    let Err(LockError::Store(StoreError::OutcomeUnknown { why })) = owner.lock([record(1)]).await else {
        panic!()
    };
    assert_eq!(why, "the store has failed: the memory store was closed before");
    let Err(LockError::Store(StoreError::Failed(why))) = owner.lock([record(1)]).await else { panic!() };
    assert_eq!(why, "the memory store was closed before");
    assert!(matches!(house.ended().await, StoreState::Failed(_)));
    assert_eq!(held.lost().await, Loss::StoreFailed);
}

#[tokio::test]
async fn closing_keeps_what_is_under_way_and_grants_nothing_more() {
    let gate = Gate::new();
    let (house, bucket, owner) = gate.shut_house().await;
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    let mut close = Box::pin(house.close());
    assert!(poll(&mut close).await.is_pending());
    assert_eq!(owner.lock([record(2)]).await, Err(LockError::Closed));
    let agent = bucket.agent("web").unwrap();
    assert!(matches!(agent.locks().request("n").if_available().await, Err(RequestError::Closed)));
    gate.open();
    lock.await.unwrap();
    assert_eq!(close.await, StoreState::Closed(Left::Nothing));
    assert_eq!(owner.touch().await, Err(StoreError::Closed));

    let house = Gate::before(gate.inner.reopen()).house().await;
    let owner = house.bucket("default").owners().resume(owner.id(), owner.secret()).await.unwrap();
    assert_eq!(owner.locks().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_stop_is_not_clean_while_holders_may_come_back_to_buckets_of_which_nothing_is_known() {
    let (clock, options) = manual();
    let options = options.lease(Duration::from_secs(10)).always_recover(true);
    let store = MemoryStore::new().unwrap();
    let house = House::open(Arc::new(store.reopen()), options.clone()).await.unwrap();
    assert_eq!(house.close().await, StoreState::Closed(Left::Unknown));
    let house = House::open(Arc::new(store.reopen()), options).await.unwrap();
    clock.advance(Duration::from_secs(10));
    assert_eq!(house.close().await, StoreState::Closed(Left::Nothing));
}

#[tokio::test(start_paused = true)]
async fn a_closed_house_lets_no_request_wait_and_answers_nothing_about_owners() {
    let (_, options) = manual();
    let house = House::open(Arc::new(MemoryStore::new().unwrap()), options).await.unwrap();
    let bucket = house.bucket("default");
    let owner = bucket.owners().open("Ada", Duration::from_secs(60)).await.unwrap();
    let agent = bucket.agent("web").unwrap();
    let held = agent.locks().request("held").await.unwrap();
    let waiting = tokio::spawn(agent.locks().request("held").into_future());
    settle().await;
    assert!(!waiting.is_finished());
    assert_eq!(house.close().await, StoreState::Closed(Left::Nothing));

    let answer = timeout(Duration::from_secs(1), waiting).await.expect("the request is woken").unwrap();
    assert!(matches!(answer, Err(RequestError::Closed)), "{answer:?}");
    let answer = poll(&mut agent.locks().request("held").into_future()).await;
    assert!(matches!(answer, Poll::Ready(Err(RequestError::Closed))), "{answer:?}");
    assert_eq!(held.release().await, Ok(()));
    let resumed = bucket.owners().resume(owner.id(), owner.secret()).await;
    assert!(matches!(resumed, Err(OwnerError::Store(StoreError::Closed))), "{resumed:?}");
    assert_eq!(owner.info().await.map(|_| ()), Err(StoreError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_is_unavailable_after_its_timeout() {
    let gate = Gate::new();
    let (house, _, owner) = gate.shut_house().await;
    let mut lock = Box::pin(owner.lock([record(1)]));
    let (begun, timeout) = (Instant::now(), Options::STORE_TIMEOUT);
    assert!(poll(&mut lock).await.is_pending());
    let StoreState::Unavailable { why, .. } = house.unavailable().await else { panic!() };
    assert_eq!(
        (begun.elapsed(), &*why),
        (timeout, "the store has not answered for 5s; its answer is waited for")
    );
    let refused = owner.lock([record(2)]).await;
    assert!(matches!(refused, Err(LockError::Store(StoreError::Unavailable { .. }))), "{refused:?}");
    // What becomes of the lock is unknown, and its caller does not wait for ever.
    let given_up = lock.await;
    assert!(matches!(given_up, Err(LockError::Store(StoreError::OutcomeUnknown { .. }))), "{given_up:?}");
    assert_eq!(begun.elapsed(), 2 * timeout);

    gate.open();
    assert_eq!(house.serving().await, StoreState::Serving);
    assert_eq!(owner.locks().await.unwrap().len(), 1, "the store had got it");
    owner.lock([record(2)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_step_of_unknown_outcome_keeps_the_locks_that_it_has_taken() {
    for begins in [false, true] {
        let gate = Gate::new();
        let (house, _, owner) = gate.shut_house().await;
        gate.let_through(2);
        owner.lock([record(1)]).await.unwrap();
        let mut transaction = match begins {
            false => BusinessTransaction::resume(&owner),
            true => BusinessTransaction::begin(&owner),
        };
        let mut step = transaction.step();
        step.lock([record(2)]).await.unwrap();
        if !begins {
            step.release(record(1).name());
        }
        let unknown = step.commit().await;
        assert!(matches!(unknown, Err(LockError::Store(StoreError::OutcomeUnknown { .. }))), "{unknown:?}");
        gate.open();
        house.serving().await;
        let names = || async { owner.locks().await.unwrap().into_iter().map(|lock| lock.name) };
        assert!(names().await.eq([record(2).name().to_buf()]), "it is kept, with the lock that it relies on");
        // The transaction goes on: what it has taken is none of an earlier one's.
        let mut step = transaction.step();
        step.lock([record(3)]).await.unwrap();
        step.commit().await.unwrap();
        assert!(names().await.eq([2, 3].map(|id| record(id).name().to_buf())));
    }
}

#[tokio::test]
async fn a_process_that_stands_still_lengthens_what_ends_by_time() {
    let (clock, options) = manual();
    let house = House::open(Arc::new(MemoryStore::new().unwrap()), options).await.unwrap();
    let owner = house.bucket("default").owners().open("Ada", Duration::from_secs(60)).await.unwrap();
    clock.stand_still(Duration::from_secs(3600));
    assert_eq!(owner.touch().await, Ok(true));
    clock.advance(Duration::from_secs(61));
    assert_eq!(owner.touch().await, Ok(false));
}

#[tokio::test]
async fn a_clock_that_leaps_ends_nothing_early() {
    let (clock, options) = manual();
    let house = House::open(Arc::new(MemoryStore::new().unwrap()), options).await.unwrap();
    for leap in 0..9 {
        let owner = house.bucket("default").owners().open("Ada", Duration::from_secs(1)).await.unwrap();
        for tick in 0..9 {
            // The ticks come ten times in a second, whatever the clock says.
            let by = if tick == leap { Duration::from_secs(10) } else { Duration::from_millis(100) };
            clock.stand_still(by);
        }
        assert_eq!(owner.touch().await, Ok(true), "a leap before tick {leap}");
    }
}

/// Whether the next start finds a clean stop.
async fn is_clean(store: &MemoryStore) -> bool {
    store.reopen().take_slot(Slot::ONLY, WriterId(9), &mut |_| {}).await.unwrap().clean
}

#[tokio::test]
async fn a_stop_is_clean_only_without_remote_holders_of_web_locks() {
    for holds in [false, true] {
        let gate = Gate::new();
        let house = gate.house().await;
        let bucket = house.bucket("default");
        let embedded = bucket.agent("embedded").unwrap();
        let _held = embedded.locks().request("mine").await.unwrap();
        let port = bucket.port(10);
        port.submit(1, Command::Join(NewAgent::new("far")));
        let [Notice::Answer { outcome: Outcome::Joined(agent), .. }] = drained(&port)[..] else { panic!() };
        let name = Name::new("n").unwrap();
        port.submit(2, Command::Request(NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive))));
        settle().await;
        assert_eq!(drained(&port).len(), 2, "queued until the store knows, then granted");
        if !holds {
            port.submit(3, Command::End { agent });
        }
        let left = if holds { Left::Unknown } else { Left::Nothing };
        assert_eq!(house.close().await, StoreState::Closed(left), "of no session that could be recognised");
        assert_eq!(is_clean(&gate.inner).await, !holds);
    }
}

#[tokio::test]
async fn a_house_that_everybody_has_left_keeps_what_is_under_way_and_ends() {
    let gate = Gate::new();
    let (house, bucket, owner) = gate.shut_house().await;
    let (id, secret) = (owner.id(), owner.secret().clone());
    let mut lock = Box::pin(owner.lock([record(1)]));
    assert!(poll(&mut lock).await.is_pending());
    // The task that waits for the answer is gone as well, but the lock has not been taken back.
    std::mem::forget(lock);
    drop((house, bucket));
    gate.open();
    settle().await;
    let house = Gate::before(gate.inner.reopen()).house().await;
    let owner = house.bucket("default").owners().resume(id, &secret).await.unwrap();
    assert_eq!(owner.locks().await.unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_of_a_house_is_left_when_its_last_user_goes() {
    let gate = Gate::new();
    let house = gate.house().await;
    let owner = house.bucket("default").owners().open("Ada", Duration::from_secs(60)).await.unwrap();
    owner.lock([record(1)]).await.unwrap();
    assert!(Arc::strong_count(&gate) > 1);
    drop((house, owner));
    settle().await;
    assert_eq!(Arc::strong_count(&gate), 1, "somebody still has the store");
}

#[test]
fn a_house_whose_runtime_ends_keeps_nothing_more() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let store = Arc::new(MemoryStore::new().unwrap());
    let (house, owner) = first.block_on(async {
        let house = House::open(store, Options::new()).await.unwrap();
        let owner = house.bucket("default").owners().open("Ada", Duration::from_secs(60)).await.unwrap();
        (house, owner)
    });
    drop(first);
    assert!(matches!(house.store_state(), StoreState::Failed(_)));
    let refused = runtime().block_on(owner.lock([record(1)]));
    assert!(matches!(refused, Err(LockError::Store(StoreError::Failed(_)))), "{refused:?}");
}
