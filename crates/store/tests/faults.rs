//! The promises to a writer over a network that loses, delays, refuses, and lets other writers in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockhouse_core::{Change, FencingToken, Instant, LockRecord, Mode, NameBuf, OwnerId};
use lockhouse_store::conformance::{self, Harness};
use lockhouse_store::{
    CommitBatch, CommitOutcome, FaultCount, FaultStore, Faults, MemoryStore, Opened, RecoveredRow, Scope,
    Slot, Store, StoreFuture, TakeError, Write, WriterId,
};

use crate::memory::Memory;
use crate::sqlite::Sqlite;

/// The faults that a writer survives by sending again.
const SURVIVABLE: Faults = Faults {
    answer_lost: 100,
    batch_lost: 100,
    late: 100,
    refused: 100,
    stalled: 100,
    fenced: 0,
    take_failed: 300,
};

/// Opens a store behind such a network.
struct Faulty<H> {
    inner: H,
    seed: AtomicU64,
}

impl<H: Harness> Harness for Faulty<H> {
    fn open(&self) -> StoreFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            let seed = self.seed.fetch_add(1000, Ordering::Relaxed);
            Arc::new(FaultStore::new(self.inner.open().await, seed, SURVIVABLE)) as _
        })
    }

    fn kill(&self, store: Arc<dyn Store>) -> StoreFuture<'_, ()> {
        self.inner.kill(store)
    }
}

macro_rules! over_faults {
    ($($promise:ident)*) => { $(
        mod $promise {
            use super::*;

            #[tokio::test]
            async fn on_memory() {
                for seed in 0..10 {
                    conformance::$promise(&Faulty { inner: Memory::new(), seed: seed.into() }).await;
                }
            }

            #[tokio::test]
            async fn on_sqlite() {
                conformance::$promise(&Faulty { inner: Sqlite::new(), seed: 0.into() }).await;
            }
        }
    )* };
}

// The other promises are about outcomes, which are not the store's own here.
over_faults! {
    what_was_committed_is_there_after_a_kill
    each_change_does_what_it_says
    state_comes_back_in_an_order_that_rebuilds_it
    the_mark_of_a_dropped_bucket_passes_to_its_tenant
    only_what_was_announced_since_the_last_recovery_recovers
    random_histories_amount_to_what_they_say
}

/// A batch of three locks that no other batch has.
fn three_locks(number: u64, slot: &Opened, writer: WriterId, first_seq: u64) -> Arc<CommitBatch> {
    let scope = Arc::new(Scope::new("t", "b"));
    let lock = |part: u64| {
        Change::Locked(LockRecord {
            name: NameBuf::new(&format!("{number}")).unwrap(),
            owner: OwnerId::new(part),
            mode: Mode::Shared,
            token: FencingToken::new(1 + number * 3 + part),
            since: Instant::from_millis(0),
            metadata: None,
        })
    };
    let writes = (0..3).map(|part| Write::Change { scope: Arc::clone(&scope), change: lock(part) }).collect();
    Arc::new(CommitBatch { slot: Slot::ONLY, epoch: slot.epoch, writer, first_seq, writes })
}

/// The batches that are there, and the number of locks of each.
type Batches = BTreeMap<u64, usize>;

async fn take(store: &FaultStore, writer: WriterId) -> (Opened, Batches) {
    loop {
        let mut found = Batches::new();
        let mut visit = |row| {
            if let RecoveredRow::Change { change: Change::Locked(lock), .. } = row {
                *found.entry(lock.name.as_name().as_str().unwrap().parse().unwrap()).or_default() += 1;
            }
        };
        match store.take_slot(Slot::ONLY, writer, &mut visit).await {
            Ok(opened) => return (opened, found),
            Err(TakeError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Writers one after the other, each until it is fenced or gives up with a batch still unknown.
async fn lives(store: Arc<dyn Store>, seed: u64) -> (FaultCount, Vec<u64>) {
    let store = FaultStore::new(store, seed, Faults::SOME);
    let (mut committed, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    let mut number = 0;
    for life in 0..30 {
        let writer = WriterId(seed ^ life);
        let (opened, found) = take(&store, writer).await;
        for (batch, locks) in &found {
            assert_eq!(*locks, 3, "batch {batch} is there in part");
            assert!(committed.contains(batch) || unknown.contains(batch), "{batch} was given up");
        }
        let lost: Vec<&u64> = committed.iter().filter(|batch| !found.contains_key(batch)).collect();
        assert!(lost.is_empty(), "told as kept, but gone: {lost:?}");
        // A batch that has not arrived by now never will.
        committed = found.into_keys().collect();
        unknown.clear();

        let mut first_seq = 1;
        'writing: for _ in 0..20 {
            number += 1;
            let batch = three_locks(number, &opened, writer, first_seq);
            loop {
                match store.commit(vec![Arc::clone(&batch)]).await.unwrap().remove(0) {
                    CommitOutcome::Committed => break,
                    CommitOutcome::Refused(_) => {}
                    CommitOutcome::Unknown => drop(unknown.insert(number)),
                    CommitOutcome::Fenced | CommitOutcome::Damaged(_) => break 'writing,
                }
            }
            committed.insert(number);
            first_seq = batch.last_seq() + 1;
        }
        // A last batch, whose answer the writer does not live to see.
        number += 1;
        unknown.insert(number);
        store.commit(vec![three_locks(number, &opened, writer, first_seq)]).await.unwrap();
    }
    (store.count(), committed.into_iter().collect())
}

#[tokio::test]
async fn committed_batches_are_durable_and_fenced_ones_never_arrive() {
    let mut total = FaultCount::default();
    for seed in 0..100 {
        let (count, _) = lives(Arc::new(MemoryStore::new().unwrap()), seed).await;
        total.answers_lost += count.answers_lost;
        total.batches_lost += count.batches_lost;
        total.late += count.late;
        total.refused += count.refused;
        total.fenced += count.fenced;
        total.stalled += count.stalled;
        total.takes_failed += count.takes_failed;
    }
    let each = [total.answers_lost, total.batches_lost, total.late, total.refused, total.stalled];
    assert!(
        each.iter().all(|count| *count > 500) && total.fenced > 100 && total.takes_failed > 100,
        "{total:?}"
    );
}

#[tokio::test]
async fn the_same_seed_fails_in_the_same_way() {
    let run = |seed| lives(Arc::new(MemoryStore::new().unwrap()), seed);
    assert_eq!(run(7).await, run(7).await);
    assert_ne!(run(7).await, run(8).await);
}

#[tokio::test]
async fn without_faults_nothing_fails() {
    let memory = Arc::new(MemoryStore::new().unwrap());
    let store = FaultStore::new(memory, 1, Faults::NONE);
    let (opened, _) = take(&store, WriterId(1)).await;
    for number in 0..1000 {
        let batch = three_locks(number, &opened, WriterId(1), 1 + number * 3);
        assert_eq!(store.commit(vec![batch]).await, Ok(vec![CommitOutcome::Committed]));
    }
    assert_eq!(store.count().total(), 0);
}
