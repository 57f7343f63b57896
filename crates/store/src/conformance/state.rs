//! Promises about the state that comes back.

use std::sync::Arc;

use lockhouse_core::{
    Change, ClaimRecord, FencingToken, Instant, LockRecord, Mode, NameBuf, OwnerId, OwnerRecord, SecretSeed,
};

use super::Harness;
use super::life::Life;
use super::sample::{
    assignment, claim, dropped, ended, lock, name, of_tenant, owner, recovered_rows, reserved, scope, swept,
    unassigned, unclaimed, unlocked, voided, writes,
};
use crate::{
    HistoryEnd, HistoryEntry, HistoryFilter, HistoryKind, HistoryQuery, MarkOf, RecoveredRow, RefusalRecord,
    Scope, TokenMark, Write,
};

/// Promise 4: every committed batch is there as a whole after the process was killed, at each of many
/// moments.
pub async fn what_was_committed_is_there_after_a_kill(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let mut written = vec![Change::OwnerOpened(owner(1))];
    life.write(writes(&scope(), written.clone())).await;
    for round in 0..10 {
        for number in 0..20 {
            let change = Change::Locked(lock(&format!("{round}/{number}"), 1, 1 + round * 20 + number));
            written.push(change.clone());
            life.write(writes(&scope(), [change])).await;
        }
        life = life.kill(harness).await;
        assert_eq!(life.recovered, recovered_rows(&scope(), false, written.clone()));
    }
}

/// Every kind of change, and the state after it.
pub async fn each_change_does_what_it_says(harness: &dyn Harness) {
    use Change::{Assigned, Claimed, Locked, OwnerOpened};
    let (one, two) = (owner(1), owner(2));
    let shared = lock("a", 1, 4);
    let upgraded = LockRecord { mode: Mode::Exclusive, token: FencingToken::new(9), ..shared.clone() };
    let claimed = claim("c", 10);
    let steps: [(Change, Vec<Change>); 14] = [
        (reserved(100), vec![reserved(100)]),
        (OwnerOpened(one.clone()), vec![OwnerOpened(one.clone())]),
        (OwnerOpened(two.clone()), vec![OwnerOpened(one.clone()), OwnerOpened(two.clone())]),
        (Locked(shared.clone()), vec![Locked(shared.clone())]),
        (Locked(lock("a", 2, 6)), vec![Locked(shared.clone()), Locked(lock("a", 2, 6))]),
        (unlocked(&lock("a", 2, 6)), vec![Locked(shared)]),
        (Locked(upgraded.clone()), vec![Locked(upgraded.clone())]),
        (reserved(90), vec![Locked(upgraded.clone())]),
        (Claimed(claimed.clone()), vec![Locked(upgraded.clone()), Claimed(claimed.clone())]),
        (unclaimed(&claimed), vec![Locked(upgraded.clone())]),
        (Claimed(claim("c", 12)), vec![Locked(upgraded.clone()), Claimed(claim("c", 12))]),
        (Assigned(assignment("c", 12)), vec![Locked(upgraded), Assigned(assignment("c", 12))]),
        (ended(1, &["a"]), vec![Assigned(assignment("c", 12))]),
        (unassigned("c", 12), vec![]),
    ];
    let mut life = Life::begin(harness).await;
    for (number, (change, left)) in steps.into_iter().enumerate() {
        life.write(writes(&scope(), [change.clone()])).await;
        life = Life::take(life.store, number as u64).await;
        let always = match number {
            0 => vec![],
            1 => vec![reserved(100)],
            2 => vec![reserved(100)],
            12.. => vec![reserved(100), OwnerOpened(two.clone())],
            _ => vec![reserved(100), OwnerOpened(one.clone()), OwnerOpened(two.clone())],
        };
        let expected = recovered_rows(&scope(), false, always.into_iter().chain(left));
        assert_eq!(life.recovered, expected, "after {change:?}");
    }
}

/// Locks that became void come back as such, after the locks, until they are swept or their owner has ended.
pub async fn void_locks_come_back_until_they_are_swept(harness: &dyn Harness) {
    use Change::{Locked, OwnerOpened};
    let locks = [lock("a", 1, 3), lock("b", 1, 5), lock("c", 2, 7)];
    let begin: Vec<Change> =
        (1..=2).map(|number| OwnerOpened(owner(number))).chain(locks.clone().map(Locked)).collect();
    let mut life = Life::begin(harness).await;
    life.write(writes(&scope(), begin.clone())).await;
    // Those of each owner in their order, whichever comes first.
    let voided_in_turn = [voided(2, 9), voided(1, 8), voided(1, 7), voided(1, 5)];
    life.write(writes(&scope(), voided_in_turn)).await;
    let mut life = life.kill(harness).await;
    let of_1 = [voided(1, 8), voided(1, 7), voided(1, 5)];
    let expected = begin.iter().cloned().chain(of_1).chain([voided(2, 9)]);
    assert_eq!(life.recovered, recovered_rows(&scope(), false, expected));

    life.write(writes(&scope(), [unlocked(&locks[0]), swept(1), ended(2, &["c"])])).await;
    let mut life = life.kill(harness).await;
    let expected = [OwnerOpened(owner(1)), Locked(lock("b", 1, 5))];
    assert_eq!(life.recovered, recovered_rows(&scope(), false, expected));

    // Nor are they there in a bucket of the same name that begins anew.
    life.write(writes(&scope(), [voided(1, 2)])).await;
    life.write(vec![dropped(&scope(), None)]).await;
    life.write(writes(&scope(), [OwnerOpened(owner(1))])).await;
    let life = life.kill(harness).await;
    assert_eq!(life.recovered, recovered_rows(&scope(), false, [OwnerOpened(owner(1))]));
}

/// Tenants, then bucket by bucket; within one the mark, owners, locks, claims, assignments, each by its
/// number.
pub async fn state_comes_back_in_an_order_that_rebuilds_it(harness: &dyn Harness) {
    use Change::{Assigned, Claimed, Locked, OwnerOpened};
    let mut life = Life::begin(harness).await;
    let shuffled = [
        Assigned(assignment("z", 2)),
        Claimed(claim("y", 9)),
        OwnerOpened(owner(7)),
        Claimed(claim("a", 8)),
        OwnerOpened(owner(3)),
        Locked(lock("a", 7, 5)),
        Assigned(assignment("b", 4)),
        Locked(lock("z", 3, 1)),
        reserved(10),
    ];
    let sorted = vec![
        reserved(10),
        OwnerOpened(owner(3)),
        OwnerOpened(owner(7)),
        Locked(lock("z", 3, 1)),
        Locked(lock("a", 7, 5)),
        Claimed(claim("a", 8)),
        Claimed(claim("y", 9)),
        Assigned(assignment("z", 2)),
        Assigned(assignment("b", 4)),
    ];
    let scopes = [("t", "x"), ("t", "a"), ("s", "x"), ("t", "dropped"), ("", "")]
        .map(|(tenant, bucket)| Arc::new(Scope::new(tenant, bucket)));
    for change in shuffled {
        let everywhere = scopes.iter().flat_map(|scope| writes(scope, [change.clone()]));
        life.write(everywhere.collect()).await;
    }
    life.write(vec![dropped(&scopes[3], Some(of_tenant("t", 7)))]).await;

    let life = life.kill(harness).await;
    let (head, rest) = life.recovered.split_at(1);
    assert_eq!(head, [RecoveredRow::Mark(of_tenant("t", 7))]);
    let mut buckets: Vec<Vec<RecoveredRow>> =
        rest.chunk_by(|_, next| !matches!(next, RecoveredRow::Bucket { .. })).map(<[_]>::to_vec).collect();
    let mut expected: Vec<Vec<RecoveredRow>> =
        [0, 1, 2, 4].iter().map(|n| recovered_rows(&scopes[*n], false, sorted.clone())).collect();
    buckets.sort_by_key(|bucket| format!("{bucket:?}"));
    expected.sort_by_key(|bucket| format!("{bucket:?}"));
    assert_eq!(buckets, expected);
}

/// A dropped bucket leaves nothing but the given mark of its tenant, whatever was reserved; if the bucket
/// comes back, it is empty.
pub async fn the_mark_of_a_dropped_bucket_passes_to_its_tenant(harness: &dyn Harness) {
    let named = |bucket: &str| Arc::new(Scope::new("t", bucket));
    let other = Arc::new(Scope::new("u", "a"));
    let drop = |bucket: &str, up_to| dropped(&named(bucket), Some(of_tenant("t", up_to)));
    let tenant = |up_to| RecoveredRow::Mark(of_tenant("t", up_to));

    let mut life = Life::begin(harness).await;
    let full = [reserved(500), Change::OwnerOpened(owner(1)), Change::Locked(lock("a", 1, 3))];
    life.write(writes(&named("a"), full)).await;
    life.write(writes(&named("b"), [reserved(300)])).await;
    life.write(writes(&other, [reserved(900)])).await;
    life.write(vec![
        Write::NeedsRecovery { scope: named("a") },
        drop("a", 30),
        dropped(&named("never"), None),
    ])
    .await;
    let mut life = life.kill(harness).await;
    let b = recovered_rows(&named("b"), false, [reserved(300)]);
    let u = recovered_rows(&other, false, [reserved(900)]);
    assert_eq!(life.recovered, [vec![tenant(30)], b, u.clone()].concat());

    // A lower mark does not lower the tenant's; a dropped bucket is no longer returned.
    let again = Write::NeedsRecovery { scope: named("a") };
    life.write(vec![drop("b", 20), again, dropped(&named("a"), None)]).await;
    let mut life = life.kill(harness).await;
    assert_eq!(life.recovered, [vec![tenant(30)], u.clone()].concat());

    life.write(writes(&named("a"), [reserved(600)])).await;
    let mut life = life.kill(harness).await;
    let a = recovered_rows(&named("a"), false, [reserved(600)]);
    assert_eq!(life.recovered, [vec![tenant(30)], a, u.clone()].concat());

    // The commit that follows does not know the dropped bucket any more either.
    life.write(writes(&named("a"), [reserved(650)])).await;
    life.write(vec![drop("a", 40)]).await;
    life.write(writes(&named("a"), [reserved(700)])).await;
    let life = life.kill(harness).await;
    let a = recovered_rows(&named("a"), false, [reserved(700)]);
    assert_eq!(life.recovered, [vec![tenant(40)], a, u].concat());
}

/// Each mark is kept where the caller says, and the marks of tenants and groups can be replaced as a whole.
pub async fn marks_are_kept_where_they_were_put(harness: &dyn Harness) {
    let group = |group: &str, up_to| TokenMark { of: MarkOf::Group(group.into()), up_to };
    let all = |up_to| TokenMark { of: MarkOf::All, up_to };
    let rows = |marks: &[TokenMark]| -> Vec<_> { marks.iter().cloned().map(RecoveredRow::Mark).collect() };

    let mut life = Life::begin(harness).await;
    let marks =
        [group("g", 7), of_tenant("t", 5), of_tenant("g", 3), all(2), group("g", 6), group("", 1), all(1)];
    let drop = |mark: &TokenMark| dropped(&scope(), Some(mark.clone()));
    life.write(marks.iter().map(drop).collect()).await;
    let mut life = life.kill(harness).await;
    assert_eq!(life.opened.token_floor, 2);
    let expected = rows(&[group("", 1), group("g", 7), of_tenant("g", 3), of_tenant("t", 5)]);
    assert_eq!(life.recovered, expected);

    let marks = vec![of_tenant("t", 9), group("h", 8), all(1)];
    life.write(vec![drop(&of_tenant("u", 9)), Write::MarksReplaced { marks }]).await;
    let mut life = life.kill(harness).await;
    assert_eq!(life.opened.token_floor, 2, "it never falls");
    assert_eq!(life.recovered, rows(&[group("h", 8), of_tenant("t", 9)]));

    life.write(vec![Write::MarksReplaced { marks: vec![all(10)] }]).await;
    let life = life.kill(harness).await;
    assert_eq!((life.opened.token_floor, life.recovered), (10, Vec::new()));
}

/// Names are 16-bit units: empty ones, NUL, lone surrogates and long ones come back as they are, and are not
/// confused.
pub async fn names_come_back_unit_by_unit(harness: &dyn Harness) {
    let units: Vec<Vec<u16>> = vec![
        vec![],
        vec![0],
        vec![0, 0],
        vec![0x61],
        vec![0x61, 0],
        vec![0x61, 0, 0x62],
        vec![0xD800],
        vec![0xDC00],
        vec![0xDC00, 0xD800],
        vec![0xD83D, 0xDD11],
        vec![0xFFFD],
        vec![0xFEFF, 0x61],
        vec![0x41],
        vec![0x65, 0x301],
        vec![0xE9],
        "%27'\"\\; DROP TABLE locks --".encode_utf16().collect(),
        vec![0xFFFF; 4096],
        // Nothing makes it shorter.
        scattered(4096).collect(),
    ];
    let named =
        |units: &Vec<u16>| NameBuf::from_units(units).unwrap_or_else(|error| panic!("{units:?}: {error}"));
    let mut changes = vec![Change::OwnerOpened(owner(1))];
    for (token, units) in (1..).zip(&units) {
        changes.push(Change::Locked(LockRecord { name: named(units), ..lock("", 1, token) }));
    }
    for (token, units) in (100..).zip(&units) {
        changes.push(Change::Claimed(ClaimRecord { name: named(units), ..claim("", token) }));
    }
    // Tenants and buckets are text, and any text will do.
    let long = || scattered(1000).map(|unit| format!("{unit:04x}")).collect::<String>();
    let scope = Arc::new(Scope::new(format!("té\0'{}", long()), format!("\u{1F511}\0/%{}", long())));
    let mut life = Life::begin(harness).await;
    life.write(writes(&scope, changes.clone())).await;
    let mut life = life.kill(harness).await;
    assert_eq!(life.recovered, recovered_rows(&scope, false, changes.clone()));

    // Each name finds only its own claim.
    while let Some(Change::Claimed(claimed)) = changes.pop() {
        life.write(writes(&scope, [unclaimed(&claimed)])).await;
        life = Life::take(life.store, changes.len() as u64).await;
        let Some(Change::Locked(_)) = changes.last() else {
            assert_eq!(life.recovered, recovered_rows(&scope, false, changes.clone()));
            continue;
        };
        break;
    }
}

/// Numbers that use all their bits, and texts of a thousand bytes.
pub async fn numbers_come_back_up_to_their_bounds(harness: &dyn Harness) {
    let far = Instant::from_millis(u64::MAX);
    let text: Box<str> = "\u{7FF}".repeat(500).into();
    let last = FencingToken::new(FencingToken::LIMIT - 1);
    let opened = OwnerRecord {
        owner: OwnerId::new(FencingToken::LIMIT - 2),
        label: text.clone(),
        metadata: Some("".into()),
        ttl_ms: u64::MAX,
        since: Instant::from_millis(0),
        ends: Some(far),
        seed: SecretSeed(u64::MAX),
    };
    let locked = LockRecord {
        owner: opened.owner,
        token: last,
        since: far,
        metadata: Some(text.clone()),
        ..lock("a", 1, 1)
    };
    let claimed = ClaimRecord { claimant: text, seed: SecretSeed(1 << 63), ttl_ms: 1 << 63, ..claim("b", 2) };
    let changes = [
        reserved(FencingToken::LIMIT - 1),
        Change::OwnerOpened(opened),
        Change::Locked(locked),
        Change::Claimed(claimed),
    ];
    let mut life = Life::begin(harness).await;
    life.write(writes(&scope(), changes.clone())).await;
    let life = life.kill(harness).await;
    assert_eq!(life.recovered, recovered_rows(&scope(), false, changes));
}

/// A refusal is an entry of the history and nothing else: it makes no bucket, and survives as all the rest.
pub async fn a_refusal_is_an_entry_of_the_history_and_makes_no_bucket(harness: &dyn Harness) {
    let mut life = Life::begin(harness).await;
    let refusal = RefusalRecord {
        kind: HistoryKind::Offline,
        name: name("a"),
        mode: Some(Mode::Shared),
        who: "Bob".into(),
        owner: Some(OwnerId::new(7)),
        since: Instant::from_millis(10),
        at: Instant::from_millis(20),
        count: 3,
    };
    let write = Write::Refused { scope: scope(), refusal: Box::new(refusal.clone()) };
    // The bucket is made by what comes behind it in the same batch.
    life.write(vec![write.clone()]).await;
    let mut life = life.kill(harness).await;
    assert_eq!(life.recovered, []);
    let changes = [Change::OwnerOpened(owner(1))];
    life.write([vec![write], writes(&scope(), changes.clone())].concat()).await;
    let life = life.kill(harness).await;
    assert_eq!(life.recovered, recovered_rows(&scope(), false, changes));

    let find = async |filter: HistoryFilter| {
        let query = HistoryQuery { scope: (*scope()).clone(), before: None, limit: 10, filter };
        let entries = life.store.history(query).await.unwrap_or_else(|error| panic!("{error}")).entries;
        entries.into_iter().map(|entry| HistoryEntry { seq: 0, ..entry }).collect::<Vec<_>>()
    };
    let entry = HistoryEntry {
        owner: refusal.owner,
        name: Some(refusal.name),
        mode: refusal.mode,
        count: 3,
        ..HistoryEntry::new(refusal.kind, refusal.since, refusal.at, HistoryEnd::Refused, "Bob")
    };
    let all = HistoryFilter::default();
    let (early, late) = (Some(Instant::from_millis(20)), Some(Instant::from_millis(21)));
    assert_eq!(find(all.clone()).await, [entry.clone(), entry.clone()]);
    assert_eq!(find(HistoryFilter { from: early, to: late, ..all.clone() }).await.len(), 2);
    assert_eq!(find(HistoryFilter { from: late, ..all.clone() }).await, []);
    assert_eq!(find(HistoryFilter { to: early, ..all.clone() }).await, []);
    assert_eq!(find(HistoryFilter { end: Some(HistoryEnd::Released), ..all }).await, []);
}

/// Many locks of several owners, in one batch and in many, and their end.
pub async fn a_hundred_thousand_locks_come_back(harness: &dyn Harness) {
    const OWNERS: u64 = 10;
    let locks = |of: u64| (0..10_000).map(move |n| (format!("order/{of}/{n}"), of + 1, 1 + of * 10_000 + n));
    let mut life = Life::begin(harness).await;
    let mut expected: Vec<Change> = (1..=OWNERS).map(|n| Change::OwnerOpened(owner(n))).collect();
    life.write(writes(&scope(), expected.clone())).await;
    for of in 0..OWNERS {
        let changes: Vec<Change> =
            locks(of).map(|(name, owner, token)| Change::Locked(lock(&name, owner, token))).collect();
        for batch in changes.chunks(if of == 0 { 100 } else { 10_000 }) {
            life.write(writes(&scope(), batch.to_vec())).await;
        }
        expected.extend(changes);
    }
    let mut life = life.kill(harness).await;
    assert_eq!(life.recovered.len(), 1 + OWNERS as usize + 100_000);
    assert!(life.recovered == recovered_rows(&scope(), false, expected), "not what was written");

    for of in 0..OWNERS {
        let names: Vec<String> = locks(of).map(|(name, ..)| name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        life.write(writes(&scope(), [ended(of + 1, &names)])).await;
    }
    let life = life.kill(harness).await;
    assert_eq!(life.recovered, recovered_rows(&scope(), false, []));
}

/// So many units that follow no pattern, none of which is a hyphen.
fn scattered(count: usize) -> impl Iterator<Item = u16> {
    let next =
        |seed: &u64| Some(seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F));
    std::iter::successors(Some(1), next).skip(1).map(|seed| (seed >> 48) as u16 | 0x80).take(count)
}
