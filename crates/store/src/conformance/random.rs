//! Long random histories, beside the memory store, which gives the expected result.

use std::sync::Arc;

use lockhouse_core::{Change, Instant, LockRecord, Mode, OwnerId};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::Harness;
use super::life::Life;
use super::sample::{
    assignment, broken_claim, broken_lock, claim, ended, held_list, lock, name, owner, reserved, swept,
    unassigned, unclaimed, unlocked, voided, writes,
};
use crate::{
    HistoryEntry, HistoryFilter, HistoryKind, HistoryQuery, MarkOf, MemoryStore, RecoveredRow, RefusalRecord,
    Scope, SecretKey, TokenMark, Write,
};

const LIVES: u64 = 20;
const BATCHES: u64 = 15;

/// After any writes in any order, the store returns the same state as the memory store: after kills, closes
/// and takes, and also where a change ends a lock, claim or owner that never began.
pub async fn random_histories_amount_to_what_they_say(harness: &dyn Harness) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
    let mut life = Life::begin(harness).await;
    let memory = MemoryStore::with_key(SecretKey::new([7; 32]));
    let mut model = Life::take(Arc::new(memory), 0).await;
    // Epochs may have different numbers in the two, yet grow alike from here.
    for number in 0..LIVES {
        for _ in 0..BATCHES {
            let count = random.random_range(0..12);
            let batch: Vec<Write> = (0..count).flat_map(|_| write(&mut random)).collect();
            model.write(batch.clone()).await;
            life.write(batch).await;
        }
        let stop = match random.random_range(0..10) {
            0 | 1 => Some(Write::StoppedClean),
            2 | 3 => {
                let scope = Arc::new(Scope::new("a", "0"));
                let held = held_list(&[(&scope, random.random_range(0..4))]);
                Some(Write::StoppedHolding { held: Some(held) })
            }
            4 => Some(Write::StoppedHolding { held: None }),
            _ => None,
        };
        if let Some(stop) = stop {
            model.write(vec![stop.clone()]).await;
            life.write(vec![stop]).await;
        }
        model = Life::take(model.store, number + 1).await;
        life = match random.random_range(0..3) {
            0 => life.close(harness).await,
            1 => life.kill(harness).await,
            _ => Life::take(life.store, number + 1).await,
        };
        compare(&life, &model);
        compare_histories(&life, &model).await;
    }
}

/// A store may write the claims of a batch in any order where that leads to the same.
pub async fn claims_and_their_ends_amount_to_what_they_say(harness: &dyn Harness) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut life = Life::begin(harness).await;
    let memory = MemoryStore::with_key(SecretKey::new([7; 32]));
    let mut model = Life::take(Arc::new(memory), 0).await;
    for number in 0..LIVES {
        for _ in 0..BATCHES {
            // Few enough that some batches have a name twice, and most have none.
            let count = random.random_range(0..8);
            let batch: Vec<Write> = (0..count).map(|_| claim_or_end(&mut random)).collect();
            model.write(batch.clone()).await;
            life.write(batch).await;
        }
        model = Life::take(model.store, number + 1).await;
        life = life.kill(harness).await;
        compare(&life, &model);
        compare_histories(&life, &model).await;
    }
}

fn claim_or_end(random: &mut Xoshiro256PlusPlus) -> Write {
    let scope = Arc::new(Scope::new("t", random.random_range(0..2).to_string()));
    let (name, token) = (random.random_range(0..20).to_string(), random.random_range(1..=1_000_000));
    let change = match random.random_range(0..9) {
        0 => reserved(random.random_range(0..1 << 40)),
        1..5 => Change::Claimed(claim(&name, token)),
        _ => unclaimed(&claim(&name, token)),
    };
    Write::Change { scope, change }
}

/// The same has ended in both, in the same order. The rows may have other numbers.
async fn compare_histories(life: &Life, model: &Life) {
    for scope in ["a", "b", "t"]
        .into_iter()
        .flat_map(|tenant| (0..3).map(move |it| Scope::new(tenant, it.to_string())))
    {
        let (left, right) = (all_of(life, &scope).await, all_of(model, &scope).await);
        let most = left.len().min(right.len());
        assert_eq!(left[..most], right[..most], "{scope}");
        assert_eq!(left.len(), right.len(), "{scope}");
    }
}

/// The history of the bucket, the latest first, read in pages.
async fn all_of(life: &Life, scope: &Scope) -> Vec<HistoryEntry> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let query = HistoryQuery { scope: scope.clone(), before, limit: 7, filter: HistoryFilter::default() };
        let page = life.store.history(query).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(page.entries.iter().all(|entry| before.is_none_or(|before| entry.seq < before)));
        all.extend(page.entries.into_iter().map(|entry| HistoryEntry { seq: 0, ..entry }));
        match page.next {
            Some(next) => before = Some(next),
            None => return all,
        }
    }
}

fn compare(life: &Life, model: &Life) {
    let of = |it: &Life| {
        let age = it.opened.epoch.saturating_sub(it.opened.tickets_since);
        (it.opened.clean, it.opened.longest_lease_ms, it.opened.token_floor, age)
    };
    // A take that failed may have used the list up.
    assert!(life.opened.held.is_none() || life.opened.held == model.opened.held);
    if life.opened.epoch == model.opened.epoch {
        assert_eq!(of(life), of(model));
    }
    let sorted = |it: &Life| {
        let mut recovered: Vec<Vec<RecoveredRow>> = it
            .recovered
            .chunk_by(|a, b| !matches!(a, RecoveredRow::Mark(_)) && !matches!(b, RecoveredRow::Bucket { .. }))
            .map(<[_]>::to_vec)
            .collect();
        recovered.sort_by_key(|piece| format!("{:?}", piece[0]));
        recovered
    };
    assert_eq!(sorted(life), sorted(model));
}

fn refused(random: &mut Xoshiro256PlusPlus, scope: Arc<Scope>) -> Write {
    let since = random.random_range(1..1000);
    let refusal = RefusalRecord {
        kind: [HistoryKind::Offline, HistoryKind::Claim][random.random_range(0..2)],
        name: name(&random.random_range(0..4).to_string()),
        mode: [None, Some(Mode::Shared), Some(Mode::Exclusive)][random.random_range(0..3)],
        who: ["", "Bob"][random.random_range(0..2)].into(),
        owner: Some(OwnerId::new(random.random_range(1..9))).filter(|_| random.random_bool(0.5)),
        since: Instant::from_millis(since),
        at: Instant::from_millis(since + random.random_range(0..60_000)),
        count: random.random_range(1..9),
    };
    Write::Refused { scope, refusal: Box::new(refusal) }
}

/// Often one write, sometimes several that belong together.
fn write(random: &mut Xoshiro256PlusPlus) -> Vec<Write> {
    let tenants = ["a", "b"];
    let scope =
        Arc::new(Scope::new(tenants[random.random_range(0..2)], random.random_range(0..3).to_string()));
    match random.random_range(0..40) {
        0 => vec![Write::BucketDropped { scope, mark: Some(mark(random)) }],
        6 => vec![Write::MarksReplaced { marks: vec![mark(random), mark(random)] }],
        1 | 2 => vec![Write::NeedsRecovery { scope }],
        3 => vec![Write::LongestLease { ms: random.random_range(0..100_000) }],
        4 => vec![Write::RecoveryCompleted],
        5 => vec![Write::MarkErased],
        7 | 8 => vec![refused(random, scope)],
        _ => writes(&scope, [change(random)]),
    }
}

fn mark(random: &mut Xoshiro256PlusPlus) -> TokenMark {
    let name = ["a", "b"][random.random_range(0..2)].into();
    let of = match random.random_range(0..3) {
        0 => MarkOf::Tenant(name),
        1 => MarkOf::Group(name),
        _ => MarkOf::All,
    };
    TokenMark { of, up_to: random.random_range(1..1 << 40) }
}

fn change(random: &mut Xoshiro256PlusPlus) -> Change {
    let (party, token) = (random.random_range(1..=4), random.random_range(1..=1_000_000));
    let name = ["", "a", "b", "\0", "long ".repeat(60).as_str()][random.random_range(0..5)].to_owned();
    match random.random_range(0..17) {
        15 => broken_lock(&lock(&name, party, token)),
        16 => broken_claim(&claim(&name, token)),
        0 => reserved(random.random_range(0..1 << 40)),
        1 => Change::OwnerOpened(owner(party)),
        2 => ended(party, &[&name, "a"]),
        3..=5 => Change::Locked(lock(&name, party, token)),
        6 => Change::Locked(LockRecord { mode: Mode::Shared, ..lock(&name, party, token) }),
        7 => unlocked(&lock(&name, party, token)),
        8 => Change::Claimed(claim(&name, token)),
        9 => unclaimed(&claim(&name, token)),
        10 => Change::Assigned(assignment(&name, token)),
        11 | 12 => voided(party, token),
        13 => swept(party),
        _ => unassigned(&name, token),
    }
}
