//! Business transactions and their steps.

use lockhouse::{BusinessTransaction, LockError, Mode, Name, Owner, RecordKind};

use super::ground::{Ground, Place};
use super::locks::{MINUTE, customers, documents, is_conflict, names, two};

/// A step that locks one customer and succeeds.
async fn edit(session: &Owner, id: u32) -> Result<(), LockError> {
    BusinessTransaction::begin(session)
        .run(async |step| {
            step.lock([customers().for_write(id)]).await?;
            Ok(())
        })
        .await
}

pub(crate) async fn a_failed_step_takes_back_all_that_it_locked(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    bob.lock([customers().for_write(2)]).await.unwrap();
    let failed = BusinessTransaction::begin(&ada)
        .run(async |step| {
            step.lock([customers().for_write(1)]).await?;
            step.lock([customers().for_write(2)]).await?;
            Ok::<_, LockError>(())
        })
        .await;
    assert!(is_conflict(&failed));
    assert!(names(&ada).await.is_empty());
    bob.lock([customers().for_write(1)]).await.unwrap();
}

pub(crate) async fn a_failed_step_turns_an_upgrade_back(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    ada.lock([documents().for_read(1)]).await.unwrap();
    let mut transaction = BusinessTransaction::resume(&ada);
    let mut step = transaction.step();
    step.lock([documents().for_write(1)]).await.unwrap();
    step.lock([documents().for_read(2)]).await.unwrap();
    step.lock([documents().for_write(2)]).await.unwrap();
    step.roll_back();
    let locks = ada.locks().await.unwrap();
    assert_eq!(locks.len(), 1);
    assert_eq!((locks[0].name.as_name(), locks[0].mode), (documents().record(1).name(), Mode::Shared));
    bob.lock([documents().for_read(1), documents().for_write(2)]).await.unwrap();
}

pub(crate) async fn a_failed_step_leaves_a_lock_reported_to_another_step(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    // A form that is sent twice: the first request breaks off while the second one goes on.
    let (mut first, mut second) = (BusinessTransaction::resume(&ada), BusinessTransaction::resume(&ada));
    let mut given_up = first.step();
    given_up.lock([customers().for_write(1)]).await.unwrap();
    let mut goes_on = second.step();
    goes_on.lock([customers().for_write(1)]).await.unwrap();
    given_up.roll_back();
    assert_eq!(names(&ada).await, ["customer/1"], "the other step rests on it");
    assert!(is_conflict(&bob.lock([customers().for_write(1)]).await));
    goes_on.release(customers().record(1).name());
    goes_on.commit().await.unwrap();
    bob.lock([customers().for_write(1)]).await.unwrap();
}

pub(crate) async fn a_failed_step_takes_back_locks_reported_to_it_repeatedly(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let mut transaction = BusinessTransaction::resume(&ada);
    let mut step = transaction.step();
    for _ in 0..3 {
        step.lock([documents().for_read(1)]).await.unwrap();
    }
    for _ in 0..3 {
        step.lock([documents().for_write(1), customers().for_write(2)]).await.unwrap();
    }
    step.roll_back();
    assert!(names(&ada).await.is_empty());
    bob.lock([documents().for_write(1), customers().for_write(2)]).await.unwrap();
}

pub(crate) async fn a_new_transaction_gives_back_what_the_one_before_left(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    edit(&ada, 1).await.unwrap();
    edit(&ada, 2).await.unwrap();
    assert_eq!(names(&ada).await, ["customer/2"]);
    bob.lock([customers().for_write(1)]).await.unwrap();
}

pub(crate) async fn a_new_transaction_spares_what_it_locks_again(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, _) = two(&bucket.owners()).await;
    edit(&ada, 1).await.unwrap();
    let before = ada.locks().await.unwrap();
    assert_eq!(before.len(), 1);
    edit(&ada, 1).await.unwrap();
    assert_eq!(ada.locks().await.unwrap(), before, "it never was free in between");
}

pub(crate) async fn a_step_that_fails_at_the_beginning_leaves_the_transaction_before_as_it_was(
    ground: impl Ground,
) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    edit(&ada, 1).await.unwrap();
    bob.lock([customers().for_write(2)]).await.unwrap();
    assert!(is_conflict(&edit(&ada, 2).await));
    assert_eq!(names(&ada).await, ["customer/1"]);
}

pub(crate) async fn going_on_keeps_the_locks_and_a_save_releases_at_its_success(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    edit(&ada, 1).await.unwrap();
    let mut save = BusinessTransaction::resume(&ada);
    let mut step = save.step();
    step.lock([customers().for_write(1)]).await.unwrap();
    step.release(customers().record(1).name());
    assert!(is_conflict(&bob.lock([customers().for_write(1)]).await), "held until the step has succeeded");
    step.commit().await.unwrap();
    assert!(names(&ada).await.is_empty());
    bob.lock([customers().for_write(1)]).await.unwrap();
}

pub(crate) async fn a_failed_save_keeps_the_lock(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    edit(&ada, 1).await.unwrap();
    let failed = BusinessTransaction::resume(&ada)
        .run(async |step| {
            step.lock([customers().for_write(1)]).await?;
            step.release(customers().record(1).name());
            // The update of the record fails.
            Err::<(), _>(LockError::Closed)
        })
        .await;
    assert_eq!(failed, Err(LockError::Closed));
    assert_eq!(names(&ada).await, ["customer/1"]);
    assert!(is_conflict(&bob.lock([customers().for_write(1)]).await));
}

/// How a save may end an edit of customer 1.
const SAVES: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

/// The save: locks again, releases, or both; `between` comes before its commit.
async fn save(
    session: &Owner,
    (locks, releases): (bool, bool),
    between: impl AsyncFnOnce(),
) -> Result<(), LockError> {
    let mut transaction = BusinessTransaction::resume(session);
    let mut step = transaction.step();
    if locks {
        step.lock([customers().for_write(1)]).await.unwrap();
    }
    if releases {
        step.release(customers().record(1).name());
    }
    between().await;
    step.commit().await
}

fn lost(kind: &RecordKind, id: u32) -> LockError {
    LockError::Lost(vec![kind.record(id).name().to_buf()])
}

pub(crate) async fn a_save_whose_owner_has_ended_meanwhile_is_no_success(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    for how in SAVES {
        let (ada, bob) = two(&bucket.owners()).await;
        edit(&ada, 1).await.unwrap();
        let saved = save(&ada, how, async || {
            assert!(ada.end().await.unwrap());
            edit(&bob, 1).await.unwrap();
        });
        assert_eq!(saved.await, Err(LockError::OwnerEnded), "{how:?}");
        assert_eq!(names(&bob).await, ["customer/1"]);
        bob.end().await.unwrap();
    }
    // As by its longest life, of which no timeout has told the house yet.
    let ada = bucket.owners().open("Ada", MINUTE).max_life(MINUTE).await.unwrap();
    edit(&ada, 1).await.unwrap();
    let saved = save(&ada, SAVES[0], async || ground.clock().advance(MINUTE));
    assert_eq!(saved.await, Err(LockError::OwnerEnded));
}

pub(crate) async fn a_save_whose_lock_was_stolen_is_no_success_and_names_it(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let thief = bucket.agent("operator");
    for how in SAVES {
        let (ada, _) = two(&bucket.owners()).await;
        edit(&ada, 1).await.unwrap();
        let saved = save(&ada, how, async || {
            let name = customers().record(1);
            drop(thief.locks().request(name.name()).steal().await.unwrap());
        });
        assert_eq!(saved.await, Err(lost(&customers(), 1)), "{how:?}");
        // Nor if the owner has the name again by then: others may have been there.
        edit(&ada, 1).await.unwrap();
        let saved = save(&ada, (true, true), async || {
            ada.unlock_all().await.unwrap();
            edit(&ada, 1).await.unwrap();
        });
        assert_eq!(saved.await, Err(lost(&customers(), 1)), "{how:?}");
        assert_eq!(names(&ada).await, ["customer/1"], "and nothing is given back");
        ada.end().await.unwrap();
    }
}

pub(crate) async fn a_step_that_has_lost_one_lock_takes_back_the_others(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    edit(&ada, 1).await.unwrap();
    let mut transaction = BusinessTransaction::begin(&ada);
    let mut step = transaction.step();
    step.lock([customers().for_write(2), documents().for_read(3)]).await.unwrap();
    step.lock([documents().for_write(3)]).await.unwrap();
    let stolen = customers().record(2);
    drop(bucket.agent("operator").locks().request(stolen.name()).steal().await.unwrap());
    assert_eq!(step.commit().await, Err(lost(&customers(), 2)));
    assert_eq!(names(&ada).await, ["customer/1"], "the transaction before goes on");
    bob.lock([documents().for_write(3)]).await.unwrap();
}

pub(crate) async fn a_release_of_what_is_not_held_is_no_success(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, _) = two(&bucket.owners()).await;
    edit(&ada, 1).await.unwrap();
    let locks = ada.locks().await.unwrap();
    let mut transaction = BusinessTransaction::resume(&ada);
    let mut step = transaction.step();
    step.release(Name::new("another").unwrap());
    step.release_token(locks[0].name.as_name(), Some(locks[0].token));
    assert_eq!(step.commit().await, Err(LockError::Lost(vec![Name::new("another").unwrap().to_buf()])));
    assert_eq!(names(&ada).await, ["customer/1"]);
}

/// Two sessions, interleaved step by step in every way.
pub(crate) async fn two_sessions_never_work_on_one_record_at_a_time(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    // Each has an edit and a save; a set bit means that it is Ada's turn.
    for order in (0_u8..16).filter(|order| order.count_ones() == 2) {
        let mut steps = [(&ada, 0, false), (&bob, 0, false)];
        for turn in 0..4 {
            let other = steps[usize::from(order >> turn & 1)].2;
            let (session, done, works) = &mut steps[usize::from(order >> turn & 1 == 0)];
            if *done == 0 {
                *works = edit(session, 1).await.is_ok();
                assert_eq!(*works, !other, "order {order:b}, turn {turn}");
            } else if *works {
                let mut save = BusinessTransaction::resume(session);
                let mut step = save.step();
                step.release(customers().record(1).name());
                step.commit().await.unwrap();
                *works = false;
            }
            *done += 1;
        }
        assert!(names(&ada).await.is_empty() && names(&bob).await.is_empty());
    }
}
