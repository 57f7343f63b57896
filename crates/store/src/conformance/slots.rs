//! Promises about the properties of a slot.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::Harness;
use super::life::Life;
use super::sample::{held_list, lock, owner, recovered_rows, reserved, scope, writes};
use crate::{CommitOutcome, Fatal, RecoveredRow, Scope, Slot, Write, WriterId};
use lockhouse_core::Change;

/// A store that was never written to has no state and nothing to recover.
pub async fn a_new_store_is_clean_and_empty(harness: &dyn Harness) {
    let life = Life::begin(harness).await;
    assert!(life.opened.epoch >= 1);
    assert!(life.opened.clean && !life.opened.restored);
    assert_eq!((life.opened.longest_lease_ms, life.opened.token_floor), (0, 0));
    assert!(life.opened.tickets_since <= life.opened.epoch, "its own tickets count");
    assert!(!life.opened.recovers(false));
    assert_eq!(life.recovered, []);
    assert_ne!(life.opened.key.as_bytes(), &[0; 32]);
}

/// Epochs grow with every take, whatever ended the one before; the key stays.
pub async fn every_take_has_a_higher_epoch_and_the_same_key(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let key = life.opened.key.clone();
    let mut epochs = vec![life.opened.epoch];
    for round in 0..9 {
        life = match round % 3 {
            0 => life.kill(harness).await,
            1 => life.close(harness).await,
            _ => Life::take(life.store, round).await,
        };
        assert_eq!(life.opened.key, key);
        epochs.push(life.opened.epoch);
    }
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

/// After a clean stop nothing recovers, every ticket is void, and the same epoch writes nothing more.
pub async fn a_clean_stop_ends_its_epoch(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    life.write(vec![Write::MarkErased, Write::LongestLease { ms: 500 }]).await;
    life.write(vec![Write::NeedsRecovery { scope: scope() }]).await;
    let last = life.write(vec![Write::StoppedClean]).await;
    assert_eq!(life.outcome(&last).await, CommitOutcome::Committed, "its answer may have been lost");
    let more = life.batch(vec![Write::NeedsRecovery { scope: scope() }]);
    assert_eq!(life.outcome(&more).await, CommitOutcome::Fenced);

    let stopped = life.opened.epoch;
    let life = life.close(harness).await;
    assert!(life.opened.clean);
    assert_eq!(life.opened.longest_lease_ms, 0);
    assert!(life.opened.tickets_since > stopped && life.opened.tickets_since <= life.opened.epoch);
    assert_eq!(life.recovered, recovered_rows(&scope(), false, []));
}

/// What was held at a stop comes back with the next take, which recovers no bucket for that; and with no
/// later one.
pub async fn what_was_held_at_a_stop_comes_back_once(harness: &dyn Harness) {
    let other = Arc::new(Scope::new("tenant", "\u{1F511}"));
    let held = held_list(&[(&scope(), 3), (&other, 9_000)]);
    assert_eq!(held.locks(), 9_003);
    let mut life = Life::begin(harness).await;
    life.write(vec![Write::MarkErased, Write::LongestLease { ms: 500 }]).await;
    life.write(vec![Write::NeedsRecovery { scope: scope() }]).await;
    let last = life.write(vec![Write::StoppedHolding { held: Some(held.clone()) }]).await;
    assert_eq!(life.outcome(&last).await, CommitOutcome::Committed, "its answer may have been lost");
    let more = life.batch(writes(&scope(), [reserved(7)]));
    assert_eq!(life.outcome(&more).await, CommitOutcome::Fenced);

    let stopped = life.opened.epoch;
    let life = life.close(harness).await;
    assert_eq!(life.opened.held, Some(held));
    assert!(!life.opened.recovers(true) && !life.opened.clean);
    assert_eq!(life.opened.longest_lease_ms, 500);
    assert!(life.opened.tickets_since <= stopped, "its tickets count");
    assert_eq!(life.recovered, recovered_rows(&scope(), true, []));

    let life = life.kill(harness).await;
    assert_eq!(life.opened.held, None);
    assert!(life.opened.recovers(true), "some holders may not have come back");
    assert_eq!((life.opened.longest_lease_ms, life.opened.tickets_since <= stopped), (500, true));
}

/// Where it is not known what was held at a stop, the epoch ends all the same, and the next one recovers.
pub async fn a_stop_without_a_list_ends_its_epoch(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    life.write(vec![Write::MarkErased, Write::LongestLease { ms: 500 }]).await;
    life.write(vec![Write::NeedsRecovery { scope: scope() }]).await;
    life.write(vec![Write::StoppedHolding { held: None }]).await;
    let more = life.batch(writes(&scope(), [reserved(7)]));
    assert_eq!(life.outcome(&more).await, CommitOutcome::Fenced);
    let life = life.close(harness).await;
    assert!(life.opened.held.is_none() && life.opened.recovers(true) && !life.opened.clean);
    assert_eq!(life.opened.longest_lease_ms, 500);
}

/// The mark of a clean stop lasts until it is erased, or a grant is announced, and not longer.
pub async fn the_mark_of_a_clean_stop_is_erased_before_any_announcement(harness: &dyn Harness) {
    for erasing in [Write::MarkErased, Write::NeedsRecovery { scope: scope() }] {
        let mut life = Life::begin(harness).await;
        life.write(vec![Write::StoppedClean]).await;
        let life = life.kill(harness).await;
        assert!(life.opened.clean);
        let mut life = life.kill(harness).await;
        assert!(life.opened.clean, "nothing happened in between");
        life.write(vec![erasing]).await;
        let mut life = life.kill(harness).await;
        assert!(!life.opened.clean);
        life.write(vec![Write::RecoveryCompleted]).await;
        let life = life.kill(harness).await;
        assert!(!life.opened.clean, "only a stop is a stop");
        harness.kill(life.store).await;
    }
}

/// A bucket recovers if its grants were announced in an epoch without a completed recovery after it. A
/// recovery that was completed in the same epoch does not count, as clients still have the announcements of
/// that epoch.
pub async fn only_what_was_announced_since_the_last_recovery_recovers(harness: &dyn Harness) {
    let named = |bucket: &str| Arc::new(Scope::new("t", bucket));
    let needs_recovery = |bucket: &str| Write::NeedsRecovery { scope: named(bucket) };
    let recovering = |life: &Life| -> Vec<Box<str>> {
        let of = |row: &RecoveredRow| match row {
            RecoveredRow::Bucket { scope, needs_recovery: true } => Some(scope.bucket.clone()),
            _ => None,
        };
        life.recovered.iter().filter_map(of).collect()
    };

    let mut life = Life::begin(harness).await;
    let silent = writes(&named("silent"), [reserved(1)]);
    life.write([vec![needs_recovery("a"), needs_recovery("b")], silent].concat()).await;
    let first = life.opened.epoch;
    let mut life = life.kill(harness).await;
    assert_eq!(recovering(&life), ["a".into(), "b".into()]);
    assert!(life.opened.recovers(true) && !life.opened.recovers(false));
    assert!(life.opened.tickets_since <= first);

    life.write(vec![needs_recovery("b")]).await;
    let mut life = life.kill(harness).await;
    assert_eq!(recovering(&life), ["a".into(), "b".into()], "no recovery was completed");
    assert!(life.opened.tickets_since <= first);

    life.write(vec![needs_recovery("c"), Write::RecoveryCompleted, needs_recovery("d")]).await;
    let completed_in = life.opened.epoch;
    let mut life = life.kill(harness).await;
    assert_eq!(recovering(&life), ["c".into(), "d".into()]);
    assert_eq!(life.opened.tickets_since, completed_in);

    life.write(vec![Write::RecoveryCompleted]).await;
    let life = life.kill(harness).await;
    assert_eq!(recovering(&life), Vec::<Box<str>>::new());
}

/// The length of a recovery is the longest lease of all epochs since the last completed recovery, and of the
/// one in which it was completed.
pub async fn the_longest_lease_counts_until_a_recovery_is_completed(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    life.write(vec![Write::LongestLease { ms: 30_000 }, Write::LongestLease { ms: 10_000 }]).await;
    let mut life = life.kill(harness).await;
    assert_eq!(life.opened.longest_lease_ms, 30_000);
    life.write(vec![Write::LongestLease { ms: 20_000 }]).await;
    let mut life = life.kill(harness).await;
    assert_eq!(life.opened.longest_lease_ms, 30_000, "the epoch in between had shorter ones");
    life.write(vec![Write::LongestLease { ms: 5_000 }, Write::RecoveryCompleted]).await;
    let mut life = life.kill(harness).await;
    assert_eq!(life.opened.longest_lease_ms, 5_000, "leases of the recovering epoch live on");
    life.write(vec![Write::RecoveryCompleted]).await;
    let life = life.kill(harness).await;
    assert_eq!(life.opened.longest_lease_ms, 0);
}

/// A take whose caller goes away in the middle harms no other writer.
pub async fn a_dropped_take_leaves_the_slot_to_others(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let mut changes = vec![Change::OwnerOpened(owner(1))];
    changes.extend((1..20_000).map(|n| Change::Locked(lock(&format!("{n}"), 1, n))));
    life.write(writes(&scope(), changes.clone())).await;
    for number in 1..4 {
        let mut visit = drop::<RecoveredRow>;
        let mut take = life.store.take_slot(Slot::ONLY, WriterId(number), &mut visit);
        let mut polls = 0;
        poll_fn(|context| {
            polls += 1;
            if polls > number || take.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }
    let next = Life::take(Arc::clone(&life.store), 9).await;
    assert_eq!(next.recovered, recovered_rows(&scope(), false, changes));
    assert!(next.opened.epoch > life.opened.epoch);
}

/// After `close` everything is `Closed`, and the store can be opened anew.
pub async fn a_closed_store_answers_nothing_more(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    life.write(writes(&scope(), [reserved(10)])).await;
    let batch = life.batch(Vec::new());
    life.store.close().await.unwrap_or_else(|fatal| panic!("{fatal}"));
    let commit = life.store.commit(vec![batch]).await;
    assert!(matches!(commit, Err(Fatal::Closed { .. })), "{commit:?}");
    let take = life.store.take_slot(Slot::ONLY, WriterId(1), &mut drop::<RecoveredRow>).await;
    assert!(take.is_err());
    let close = life.store.close().await;
    assert!(matches!(close, Err(Fatal::Closed { .. })), "{close:?}");
    drop(life.store);
    assert_eq!(Life::begin(harness).await.recovered, recovered_rows(&scope(), false, [reserved(10)]));
}
