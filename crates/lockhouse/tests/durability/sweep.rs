//! Many locks that end at once: in commits of a bounded size, and through crashes.

use std::task::Poll;
use std::time::Duration;

use lockhouse::core::{Acquire, Change, Command, Mode, Name, NewAgent, NewRequest, Outcome};
use lockhouse::store::Write;
use lockhouse::{
    Bucket, Left, LockType, Loss, Owner, OwnerError, RecordKind, RequestError, StoreState, Wanted,
};

use super::gate::{Gate, drained, manual, poll, settle};

fn records(range: std::ops::Range<u32>) -> Vec<Wanted> {
    let kind = RecordKind::new("many", LockType::ExclusiveWrite);
    range.map(|id| kind.for_write(id)).collect()
}

/// An owner with so many locks.
async fn with_locks(bucket: &Bucket, count: u32) -> Owner {
    let owner = bucket.owners().open("Ada", Duration::from_secs(3600)).await.unwrap();
    for first in (0..count).step_by(60) {
        owner.lock(records(first..count.min(first + 60))).await.unwrap();
    }
    owner
}

/// Waits for the sweep.
async fn until_left(bucket: &Bucket, locks: usize) {
    let swept = async {
        while bucket.len() > locks {
            tokio::task::yield_now().await;
        }
        settle().await;
    };
    tokio::time::timeout(Duration::from_secs(60), swept).await.unwrap();
}

/// How many locks end by these writes, and whether they say of some that they are void.
fn ends(writes: &[Write]) -> (usize, bool) {
    let mut found = (0, false);
    for write in writes {
        match write {
            Write::Change { change: Change::Unlocked { .. }, .. } => found.0 += 1,
            Write::Change { change: Change::OwnerEnded { names, .. }, .. } => found.0 += names.len(),
            Write::Change { change: Change::LocksVoided { .. }, .. } => found.1 = true,
            _ => {}
        }
    }
    found
}

#[tokio::test]
async fn an_owner_with_many_locks_ends_at_once_and_its_locks_in_commits_of_sixty() {
    let gate = Gate::new();
    let house = gate.house().await;
    let bucket = house.bucket("default");
    let owner = with_locks(&bucket, 1000).await;
    gate.batches();
    gate.shut();
    let mut end = Box::pin(owner.end());
    assert!(poll(&mut end).await.is_pending());
    gate.let_through(1);
    assert!(end.await.unwrap());
    let mut batches = gate.batches();
    let first = batches.remove(0);
    assert_eq!((first.writes.len(), ends(&first.writes)), (1, (0, true)), "one record says all");

    // The owner has ended in every respect, though none of its locks has.
    let owners = bucket.owners();
    let mut resume = Box::pin(owners.resume(owner.id(), owner.secret()));
    assert!(poll(&mut resume).await.is_pending(), "a part of the sweep is under way");
    gate.open();
    assert!(matches!(resume.await, Err(OwnerError::Unknown)));
    until_left(&bucket, 0).await;
    batches.extend(gate.batches());
    let ended: Vec<usize> = batches.iter().map(|batch| ends(&batch.writes).0).collect();
    assert_eq!(ended.iter().sum::<usize>(), 1000);
    assert!(ended.iter().all(|count| *count <= 60), "{ended:?}");
    assert_eq!(bucket.len(), 0);
}

#[tokio::test]
async fn a_name_of_an_owner_that_has_ended_is_anothers_at_once_but_after_its_own_end() {
    let gate = Gate::new();
    let house = gate.house().await;
    let bucket = house.bucket("default");
    let owner = with_locks(&bucket, 100).await;
    let other = bucket.owners().open("Bo", Duration::from_secs(3600)).await.unwrap();
    let port = bucket.port(100);
    port.submit(0, Command::Join(NewAgent { client_id: "", lease_ms: None }));
    settle().await;
    let agent = drained(&port).into_iter().find_map(|notice| match notice {
        lockhouse::Notice::Answer { outcome: Outcome::Joined(agent), .. } => Some(agent),
        _ => None,
    });
    gate.batches();
    gate.shut();
    let mut end = Box::pin(owner.end());
    assert!(poll(&mut end).await.is_pending());
    let mut lock = Box::pin(other.lock(records(99..100)));
    assert!(poll(&mut lock).await.is_pending(), "the end of the owner is not kept yet");
    let name = Name::new("many/98").unwrap();
    let request = NewRequest::new(agent.unwrap(), name, Acquire::IfAvailable(Mode::Exclusive));
    port.submit(1, Command::Request(request));
    let announced = drained(&port);
    let is_granted = |notice: &lockhouse::Notice| format!("{notice:?}").contains("Granted");
    assert!(!announced.iter().any(is_granted), "{announced:?}");
    gate.let_through(1);
    assert!(end.await.unwrap());
    assert!(poll(&mut lock).await.is_pending(), "the end of the lock is not kept yet");
    gate.open();
    lock.await.unwrap();
    settle().await;
    let announced = drained(&port);
    assert!(announced.iter().any(is_granted), "{announced:?}");
    let writes = gate.writes();
    let place = |of: &str, what: &str| {
        let is_it = |write: &Write| {
            let text = format!("{write:?}");
            text.contains(&format!("\"{of}\"")) && text.contains(what)
        };
        writes.iter().position(is_it).unwrap_or_else(|| panic!("{what} {of} in {writes:?}"))
    };
    assert!(place("many/99", "Unlocked") < place("many/99", "Locked("));
}

#[tokio::test]
async fn a_sweep_goes_on_after_a_restart_and_no_lock_is_the_owners_again() {
    let gate = Gate::new();
    let house = gate.house().await;
    let bucket = house.bucket("default");
    let owner = with_locks(&bucket, 200).await;
    let (id, secret) = (owner.id(), owner.secret().clone());
    gate.batches();
    gate.shut();
    let mut unlock = Box::pin(owner.unlock_all());
    assert!(poll(&mut unlock).await.is_pending());
    // The record, and two parts.
    gate.let_through(3);
    assert_eq!(unlock.await.unwrap(), 200);
    settle().await;
    drop((house, bucket, owner));
    settle().await;

    let gate = Gate::before(gate.inner.reopen());
    let (clock, options) = manual();
    let house = gate.house_with(options).await;
    let bucket = house.bucket("default");
    assert_eq!(bucket.len(), 80, "a hundred and twenty had ended");
    let owner = bucket.owners().resume(id, &secret).await.unwrap();
    assert_eq!(owner.locks().await.unwrap(), []);
    assert_eq!(bucket.snapshot().await.unwrap().held.len(), 0);
    let other = bucket.owners().open("Bo", Duration::from_secs(3600)).await.unwrap();
    other.lock(records(150..151)).await.unwrap();
    owner.lock(records(151..152)).await.unwrap();
    clock.advance(Duration::from_millis(200));
    until_left(&bucket, 2).await;
    let ended: usize = gate.batches().iter().map(|batch| ends(&batch.writes).0).sum();
    assert_eq!((ended, bucket.len()), (80, 2));
}

#[tokio::test]
async fn a_sweep_leaves_the_store_to_others_between_ticks() {
    let gate = Gate::new();
    let (clock, options) = manual();
    let house = gate.house_with(options).await;
    let bucket = house.bucket("default");
    let owner = with_locks(&bucket, 1000).await;
    assert!(owner.end().await.unwrap());
    for left in [880, 760, 640, 520, 400, 280, 160, 40, 0] {
        until_left(&bucket, left).await;
        assert_eq!(bucket.len(), left);
        clock.stand_still(Duration::from_millis(100));
    }
}

#[tokio::test]
async fn a_request_that_is_refused_for_what_it_has_set_off_waits_for_that() {
    let gate = Gate::new();
    let house = gate.house().await;
    let bucket = house.bucket("default");
    let owner = with_locks(&bucket, 61).await;
    let (heir, other) = (bucket.agent("heir").unwrap(), bucket.agent("other").unwrap());
    let mut waiting = heir.locks().request("many/60").into_future();
    assert!(poll(&mut waiting).await.is_pending());
    gate.batches();
    gate.shut();
    let mut end = Box::pin(owner.end());
    assert!(poll(&mut end).await.is_pending());
    gate.let_through(1);
    assert!(end.await.unwrap());
    // The last lock is void still; it ends for this request, and the heir, which was there before, gets it.
    let mut asked = other.locks().request("many/60").if_available().into_future();
    assert!(poll(&mut asked).await.is_pending(), "the end of the lock is not kept yet");
    gate.open();
    assert!(matches!(asked.await, Err(RequestError::Unavailable(_))));
    drop(waiting.await.unwrap());
}

#[tokio::test]
async fn a_house_that_closes_leaves_the_sweep_to_the_next_start_and_stops_clean() {
    let gate = Gate::new();
    let house = gate.house().await;
    let bucket = house.bucket("default");
    let owner = with_locks(&bucket, 1000).await;
    gate.shut();
    let mut end = Box::pin(owner.end());
    assert!(poll(&mut end).await.is_pending());
    gate.batches();
    let mut close = Box::pin(house.close());
    assert!(poll(&mut close).await.is_pending());
    gate.open();
    assert_eq!(close.await, StoreState::Closed(Left::Nothing));
    let writes = gate.writes();
    assert!(ends(&writes).0 <= 60, "{} locks ended", ends(&writes).0);
    assert!(matches!(writes.last(), Some(Write::StoppedClean)), "{:?}", writes.last());
}

/// The end of the owner is not durable yet, and with it the answer to all that rests on its locks.
#[tokio::test]
async fn the_break_of_a_web_lock_waits_for_no_change_of_others() {
    let gate = Gate::new();
    let house = gate.house().await;
    let bucket = house.bucket("default");
    let owner = with_locks(&bucket, 100).await;
    let agent = bucket.agent("hangs").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    gate.shut();
    let mut end = Box::pin(owner.end());
    assert!(poll(&mut end).await.is_pending());
    let mut broken = Box::pin(bucket.break_hold(held.name(), held.fencing_token(), "ops", None));
    let Poll::Ready(Ok(Some(holder))) = poll(&mut broken).await else { panic!("the answer waits") };
    assert_eq!((&*holder.client_id, held.loss()), ("hangs", Some(Loss::Broken { reason: None })));
    // An offline lock is broken once that is durable.
    let other = bucket.owners().open("Eve", Duration::from_secs(60));
    gate.open();
    assert!(end.await.unwrap());
    let other = other.await.unwrap();
    let lock = other.lock(records(500..501)).await.unwrap().remove(0);
    gate.shut();
    let wanted = &records(500..501)[0];
    let mut broken = Box::pin(bucket.break_hold(wanted.name(), lock.token, "ops", None));
    assert!(poll(&mut broken).await.is_pending());
    gate.open();
    assert_eq!(broken.await.unwrap().unwrap().client_id, "Eve");
}
