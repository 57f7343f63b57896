//! Promises about the outcomes of batches.

use std::sync::Arc;

use lockhouse_core::Change;

use super::Harness;
use super::life::Life;
use super::sample::{lock, owner, recovered_rows, reserved, scope, unlocked, writes};
use crate::{CommitBatch, CommitOutcome, Slot, StoreUnavailable, Write, WriterId};

/// A batch that must not be stored does not fail its neighbours, and does not profit from them.
pub async fn batches_stand_or_fall_alone(harness: &dyn Harness) {
    let earlier = Life::begin(harness).await;
    let stale = earlier.batch(writes(&scope(), [reserved(1)]));
    let mut life = Life::take(earlier.store, 1).await;
    let good = life.batch(writes(&scope(), [reserved(10)]));
    life.next_seq = 3;
    let ahead = life.batch(writes(&scope(), [reserved(30)]));

    let outcomes = life.outcomes(&[&stale, &good, &ahead, &stale]).await;
    let out_of_order = CommitOutcome::Refused(StoreUnavailable::OutOfOrder { expected: 2, found: 3 });
    assert_eq!(
        outcomes,
        [CommitOutcome::Fenced, CommitOutcome::Committed, out_of_order, CommitOutcome::Fenced]
    );

    let life = life.kill(harness).await;
    assert_eq!(life.recovered, recovered_rows(&scope(), false, [reserved(10)]));
}

/// Several batches of one slot in one call are stored one after the other, each on the result of the ones
/// before it.
pub async fn batches_of_one_call_are_committed_in_their_order(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let held = lock("a", 1, 3);
    let changes = [
        Change::OwnerOpened(owner(1)),
        Change::Locked(held.clone()),
        unlocked(&held),
        Change::Locked(lock("a", 1, 5)),
    ];
    let mut batches = Vec::new();
    for change in changes {
        let batch = life.batch(writes(&scope(), [change]));
        life.next_seq += 1;
        batches.push(batch);
    }
    let outcomes = life.outcomes(&batches.iter().collect::<Vec<_>>()).await;
    assert_eq!(outcomes, vec![CommitOutcome::Committed; 4]);
    let life = life.kill(harness).await;
    let expected = [Change::OwnerOpened(owner(1)), Change::Locked(lock("a", 1, 5))];
    assert_eq!(life.recovered, recovered_rows(&scope(), false, expected));
}

/// A committed batch can be sent again, at once, later, and beside its successor.
pub async fn a_batch_sent_again_changes_nothing(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let held = lock("a", 1, 3);
    let first = writes(&scope(), [Change::OwnerOpened(owner(1)), Change::Locked(held.clone())]);
    let first = life.write(first).await;
    assert_eq!(life.outcome(&first).await, CommitOutcome::Committed);
    let second = life.batch(writes(&scope(), [unlocked(&held)]));
    assert_eq!(life.outcomes(&[&first, &second, &first]).await, vec![CommitOutcome::Committed; 3]);
    assert_eq!(life.outcome(&first).await, CommitOutcome::Committed);

    let life = life.kill(harness).await;
    assert_eq!(life.recovered, recovered_rows(&scope(), false, [Change::OwnerOpened(owner(1))]));
}

/// A batch that leaves out a number is not stored until the batch before it is. A batch with wrong numbers is
/// never taken for a stored one.
pub async fn a_batch_ahead_of_its_turn_is_refused(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let first = life.batch(writes(&scope(), [Change::OwnerOpened(owner(1))]));
    life.next_seq = 2;
    let second = life.batch(writes(&scope(), [Change::Locked(lock("a", 1, 3))]));
    let out_of_order = CommitOutcome::Refused(StoreUnavailable::OutOfOrder { expected: 1, found: 2 });
    assert_eq!(life.outcome(&second).await, out_of_order);
    assert_eq!(life.outcome(&first).await, CommitOutcome::Committed);
    assert_eq!(life.outcome(&second).await, CommitOutcome::Committed);
    let more = writes(&scope(), [Change::Locked(lock("b", 1, 4)), Change::Locked(lock("c", 1, 5))]);
    for first_seq in [0, 2, 4] {
        let batch = Arc::new(CommitBatch { first_seq, writes: more.clone(), ..(*second).clone() });
        let out_of_order =
            CommitOutcome::Refused(StoreUnavailable::OutOfOrder { expected: 3, found: first_seq });
        assert_eq!(life.outcome(&batch).await, out_of_order);
    }
    let life = life.kill(harness).await;
    let expected = [Change::OwnerOpened(owner(1)), Change::Locked(lock("a", 1, 3))];
    assert_eq!(life.recovered, recovered_rows(&scope(), false, expected));
}

/// An empty batch is `Committed` as long as its writer has the slot, and changes nothing.
pub async fn a_batch_without_writes_shows_whether_its_epoch_stands(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let empty = life.batch(Vec::new());
    assert_eq!(life.outcome(&empty).await, CommitOutcome::Committed);
    life.write(writes(&scope(), [reserved(10)])).await;
    let empty = life.batch(Vec::new());
    assert_eq!(life.outcome(&empty).await, CommitOutcome::Committed);
    let next = Life::take(life.store, 1).await;
    assert_eq!(next.outcome(&empty).await, CommitOutcome::Fenced);
    assert_eq!(next.recovered, recovered_rows(&scope(), false, [reserved(10)]));
}

/// After a take no batch of an earlier epoch is committed any more: neither a new batch nor one that was
/// stored before.
pub async fn a_newer_epoch_fences_what_came_before(harness: &dyn Harness) {
    let mut earlier = Life::begin(harness).await;
    let stored = earlier.write(writes(&scope(), [reserved(10)])).await;
    let late = earlier.batch(writes(&scope(), [reserved(99)]));
    let mut life = Life::take(earlier.store, 1).await;
    assert_eq!(life.outcomes(&[&late, &stored]).await, [CommitOutcome::Fenced, CommitOutcome::Fenced]);
    // The old batch is not let in either when the new epoch reaches its numbers.
    life.write(writes(&scope(), [reserved(11)])).await;
    assert_eq!(life.outcome(&late).await, CommitOutcome::Fenced);
    let life = life.kill(harness).await;
    assert_eq!(life.outcome(&late).await, CommitOutcome::Fenced);
    assert_eq!(life.recovered, recovered_rows(&scope(), false, [reserved(11)]));
}

/// The number of an epoch alone gives no right: it might come from before the restore of a backup.
pub async fn another_writer_of_the_same_epoch_is_fenced(harness: &dyn Harness) {
    let life = Life::begin(harness).await;
    let own = life.batch(writes(&scope(), [reserved(10)]));
    let others = Arc::new(CommitBatch { writer: WriterId(life.writer.0 - 1), ..(*own).clone() });
    let newer = Arc::new(CommitBatch { epoch: life.opened.epoch + 1, ..(*own).clone() });
    assert_eq!(life.outcomes(&[&others, &newer]).await, [CommitOutcome::Fenced, CommitOutcome::Fenced]);
    assert_eq!(life.outcome(&own).await, CommitOutcome::Committed);
}

/// No writer may write to a slot that was never taken.
pub async fn a_slot_that_was_never_taken_is_fenced(harness: &dyn Harness) {
    let life = Life::begin(harness).await;
    let own = life.batch(writes(&scope(), [reserved(10)]));
    let elsewhere = Arc::new(CommitBatch { slot: Slot::new(77), ..(*own).clone() });
    let before_any = Arc::new(CommitBatch { epoch: 0, writer: WriterId(0), ..(*own).clone() });
    let nothing = Arc::new(CommitBatch { epoch: 0, writes: Vec::<Write>::new(), ..(*own).clone() });
    let outcomes = life.outcomes(&[&elsewhere, &before_any, &nothing]).await;
    assert_eq!(outcomes, vec![CommitOutcome::Fenced; 3]);
    assert_eq!(life.outcome(&own).await, CommitOutcome::Committed);
}
