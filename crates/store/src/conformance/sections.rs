//! What becomes of sections.

use std::sync::Arc;

use lockhouse_core::Change;

use super::Harness;
use super::life::Life;
use super::sample::{lock, owner, reserved, scope, told, unlocked, writes};
use crate::{Fate, Section, Slot, Unavailable, Write, WriterId};

/// A section that has no right to be kept takes none of its neighbours with it, and is not helped by them.
pub async fn sections_stand_or_fall_alone(harness: &dyn Harness) {
    let earlier = Life::begin(harness).await;
    let stale = earlier.section(writes(&scope(), [reserved(1)]));
    let mut life = Life::take(earlier.store, 1).await;
    let good = life.section(writes(&scope(), [reserved(10)]));
    life.next_seq = 3;
    let ahead = life.section(writes(&scope(), [reserved(30)]));

    let fates = life.fates(&[&stale, &good, &ahead, &stale]).await;
    let out_of_order = Fate::Refused(Unavailable::OutOfOrder { expected: 2, found: 3 });
    assert_eq!(fates, [Fate::Fenced, Fate::Committed, out_of_order, Fate::Fenced]);

    let life = life.kill(harness).await;
    assert_eq!(life.kept, told(&scope(), false, [reserved(10)]));
}

/// Several sections of one slot in one call are kept one after the other, each with what the ones before it did.
pub async fn sections_of_one_call_are_kept_in_their_order(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let held = lock("a", 1, 3);
    let changes = [
        Change::OwnerOpened(owner(1)),
        Change::Locked(held.clone()),
        unlocked(&held),
        Change::Locked(lock("a", 1, 5)),
    ];
    let mut sections = Vec::new();
    for change in changes {
        let section = life.section(writes(&scope(), [change]));
        life.next_seq += 1;
        sections.push(section);
    }
    let fates = life.fates(&sections.iter().collect::<Vec<_>>()).await;
    assert_eq!(fates, vec![Fate::Committed; 4]);
    let life = life.kill(harness).await;
    let expected = [Change::OwnerOpened(owner(1)), Change::Locked(lock("a", 1, 5))];
    assert_eq!(life.kept, told(&scope(), false, expected));
}

/// A section that is kept can be sent again, at once, later, and beside its successor.
pub async fn a_section_sent_again_changes_nothing(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let held = lock("a", 1, 3);
    let first = writes(&scope(), [Change::OwnerOpened(owner(1)), Change::Locked(held.clone())]);
    let first = life.write(first).await;
    assert_eq!(life.fate(&first).await, Fate::Committed);
    let second = life.section(writes(&scope(), [unlocked(&held)]));
    assert_eq!(life.fates(&[&first, &second, &first]).await, vec![Fate::Committed; 3]);
    assert_eq!(life.fate(&first).await, Fate::Committed);

    let life = life.kill(harness).await;
    assert_eq!(life.kept, told(&scope(), false, [Change::OwnerOpened(owner(1))]));
}

/// A section that leaves out a number is not kept until the one before it is, and one that counts wrongly is never taken
/// for one that is kept.
pub async fn a_section_ahead_of_its_turn_is_refused(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let first = life.section(writes(&scope(), [Change::OwnerOpened(owner(1))]));
    life.next_seq = 2;
    let second = life.section(writes(&scope(), [Change::Locked(lock("a", 1, 3))]));
    let out_of_order = Fate::Refused(Unavailable::OutOfOrder { expected: 1, found: 2 });
    assert_eq!(life.fate(&second).await, out_of_order);
    assert_eq!(life.fate(&first).await, Fate::Committed);
    assert_eq!(life.fate(&second).await, Fate::Committed);
    let more = writes(&scope(), [Change::Locked(lock("b", 1, 4)), Change::Locked(lock("c", 1, 5))]);
    for first_seq in [0, 2, 4] {
        let section = Arc::new(Section { first_seq, writes: more.clone(), ..(*second).clone() });
        let out_of_order = Fate::Refused(Unavailable::OutOfOrder { expected: 3, found: first_seq });
        assert_eq!(life.fate(&section).await, out_of_order);
    }
    let life = life.kill(harness).await;
    let expected = [Change::OwnerOpened(owner(1)), Change::Locked(lock("a", 1, 3))];
    assert_eq!(life.kept, told(&scope(), false, expected));
}

/// An empty section is `Committed` as long as its writer has the slot, and changes nothing.
pub async fn a_section_without_writes_tells_whether_its_epoch_stands(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let empty = life.section(Vec::new());
    assert_eq!(life.fate(&empty).await, Fate::Committed);
    life.write(writes(&scope(), [reserved(10)])).await;
    let empty = life.section(Vec::new());
    assert_eq!(life.fate(&empty).await, Fate::Committed);
    let next = Life::take(life.store, 1).await;
    assert_eq!(next.fate(&empty).await, Fate::Fenced);
    assert_eq!(next.kept, told(&scope(), false, [reserved(10)]));
}

/// After a take nothing of an earlier epoch is kept any more: not what is new, and not what was kept before either.
pub async fn a_newer_epoch_fences_what_came_before(harness: &dyn Harness) {
    let mut earlier = Life::begin(harness).await;
    let kept = earlier.write(writes(&scope(), [reserved(10)])).await;
    let late = earlier.section(writes(&scope(), [reserved(99)]));
    let mut life = Life::take(earlier.store, 1).await;
    assert_eq!(life.fates(&[&late, &kept]).await, [Fate::Fenced, Fate::Fenced]);
    // Neither do the numbers of the new epoch let it in when they come by.
    life.write(writes(&scope(), [reserved(11)])).await;
    assert_eq!(life.fate(&late).await, Fate::Fenced);
    let life = life.kill(harness).await;
    assert_eq!(life.fate(&late).await, Fate::Fenced);
    assert_eq!(life.kept, told(&scope(), false, [reserved(11)]));
}

/// The number of an epoch alone gives no right: it might come from before a backup was brought back.
pub async fn another_writer_of_the_same_epoch_is_fenced(harness: &dyn Harness) {
    let life = Life::begin(harness).await;
    let own = life.section(writes(&scope(), [reserved(10)]));
    let others = Arc::new(Section { writer: WriterId(life.writer.0 - 1), ..(*own).clone() });
    let newer = Arc::new(Section { epoch: life.opened.epoch + 1, ..(*own).clone() });
    assert_eq!(life.fates(&[&others, &newer]).await, [Fate::Fenced, Fate::Fenced]);
    assert_eq!(life.fate(&own).await, Fate::Committed);
}

/// Nobody may write to a slot that was never taken.
pub async fn a_slot_that_nobody_took_is_fenced(harness: &dyn Harness) {
    let life = Life::begin(harness).await;
    let own = life.section(writes(&scope(), [reserved(10)]));
    let elsewhere = Arc::new(Section { slot: Slot::new(77), ..(*own).clone() });
    let before_any = Arc::new(Section { epoch: 0, writer: WriterId(0), ..(*own).clone() });
    let nothing = Arc::new(Section { epoch: 0, writes: Vec::<Write>::new(), ..(*own).clone() });
    let fates = life.fates(&[&elsewhere, &before_any, &nothing]).await;
    assert_eq!(fates, vec![Fate::Fenced; 3]);
    assert_eq!(life.fate(&own).await, Fate::Committed);
}
