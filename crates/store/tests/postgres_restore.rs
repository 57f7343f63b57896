//! The backup of a database file comes whole into the tables of a fleet, or not at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{
    AssignmentRecord, Change, ClaimRecord, FencingToken, Instant, LockRecord, Mode, NameBuf, OwnerEnd,
    OwnerId, OwnerRecord, SecretSeed, VoidLocks,
};
use lockhouse_store::{
    CommitBatch, CommitOutcome, HistoryBounds, HistoryKind, MarkOf, NewNode, Opened, PostgresOpenError,
    PostgresOptions, PostgresRestoreError, PostgresStore, RecoveredRow, RefusalRecord, RestoreError, Scope,
    Slot, SqliteStore, Store, TokenMark, Write, WriterId, restore,
};
use tokio::sync::mpsc;

use crate::pgbouncer::PgBouncer;
use crate::server::Server;

const SLOTS: u16 = 8;

/// What the samples say has ended is long ago.
const HISTORY: HistoryBounds = HistoryBounds { age: None, ..HistoryBounds::DEFAULT };

fn options() -> PostgresOptions {
    let options = PostgresOptions::default().slots(SLOTS).history(HISTORY);
    options.statement_timeout(Duration::from_secs(10))
}

fn name(text: &str) -> NameBuf {
    NameBuf::new(text).unwrap()
}

fn owner(number: u64) -> Change {
    Change::OwnerOpened(OwnerRecord {
        owner: OwnerId::new(number),
        label: "Ann\0".into(),
        metadata: Some("{}".into()),
        ttl_ms: 1000,
        since: Instant::from_millis(7),
        ends: (number == 1).then_some(Instant::from_millis(99)),
        seed: SecretSeed(u64::MAX - number),
    })
}

fn lock(number: u64, owner: u64) -> Change {
    Change::Locked(LockRecord {
        name: name(&format!("lock {number}")),
        owner: OwnerId::new(owner),
        mode: if number.is_multiple_of(2) { Mode::Shared } else { Mode::Exclusive },
        token: FencingToken::new(number),
        since: Instant::from_millis(8),
        metadata: number.is_multiple_of(3).then(|| "of lock".into()),
    })
}

/// What one bucket has: some of each kind.
fn changes(locks: u64) -> Vec<Change> {
    let voided =
        |owner, which| Change::LocksVoided { owner: OwnerId::new(owner), which, at: Instant::from_millis(9) };
    let mut changes = vec![Change::TokensReserved { up_to: 5000 }, owner(1), owner(2)];
    changes.extend((1..=locks).map(|number| lock(number, 1 + number % 2)));
    changes.extend([
        voided(1, VoidLocks::These(vec![(name("lock 1"), FencingToken::new(1))])),
        voided(2, VoidLocks::OfEnded(OwnerEnd::Expired)),
        Change::Claimed(ClaimRecord {
            name: name("seat\0"),
            claimant: "worker".into(),
            token: FencingToken::new(3000),
            ttl_ms: 1,
            since: Instant::from_millis(10),
            seed: SecretSeed(2),
            metadata: Some("of claim".into()),
        }),
        Change::Assigned(AssignmentRecord {
            name: name("other seat"),
            claimant: "ben".into(),
            token: FencingToken::new(3001),
            since: Instant::from_millis(11),
            seed: SecretSeed(3),
        }),
    ]);
    changes
}

/// A backup with some buckets, each with so many locks, and a bucket that was dropped.
async fn backup(folder: &Path, buckets: usize, locks: u64) -> PathBuf {
    let store = SqliteStore::open_keeping(folder.join("lockhouse.db"), HISTORY).unwrap();
    let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
    let mut writes = vec![Write::LongestLease { ms: 12_000 }];
    for number in 0..buckets {
        let scope = Arc::new(Scope::new("tenant\u{1f}", format!("bucket {number}")));
        let write = |change| Write::Change { scope: scope.clone(), change };
        writes.extend(changes(locks).into_iter().map(write));
    }
    let dropped = Arc::new(Scope::new("gone", "gone"));
    writes.push(Write::Change { scope: dropped.clone(), change: owner(1) });
    let mark = Some(TokenMark { of: MarkOf::Tenant("gone".into()), up_to: 70_000 });
    writes.push(Write::BucketDropped { scope: dropped, mark });
    let batch =
        CommitBatch { slot: Slot::ONLY, epoch: opened.epoch, writer: WriterId(1), first_seq: 1, writes };
    assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    let backup = folder.join("backup.db");
    store.backup(backup.clone()).await.unwrap();
    store.close().await.unwrap();
    backup
}

/// The changes of each bucket but its mark.
type Buckets = BTreeMap<Scope, Vec<Change>>;

/// Adds what is in a slot. Every bucket has the mark, and is in no other slot.
async fn load(store: &dyn Store, slot: Slot, buckets: &mut Buckets) -> Opened {
    let mut rows = Vec::new();
    let opened = store.take_slot(slot, WriterId(1), &mut |row| rows.push(row)).await.unwrap();
    let mut marks = 0;
    for row in rows {
        match row {
            RecoveredRow::Bucket { scope, .. } => {
                assert_eq!(buckets.insert(Scope::clone(&scope), Vec::new()), None, "{scope}");
                marks += 1;
            }
            RecoveredRow::Change { change: Change::TokensReserved { up_to }, .. } => {
                assert_eq!(up_to, opened.token_floor);
                marks -= 1;
            }
            RecoveredRow::Change { scope, change } => buckets.get_mut(&*scope).unwrap().push(change),
            RecoveredRow::Mark(mark) => panic!("{mark:?}"),
        }
    }
    assert_eq!(marks, 0);
    opened
}

#[tokio::test]
async fn a_backup_is_spread_over_the_slots_and_nothing_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let backup = backup(folder.path(), 20, 40).await;
    let file = folder.path().join("restored.db");
    restore(&backup, &file).unwrap();
    let mut expected = Buckets::new();
    let of_file = load(&SqliteStore::open(&file).unwrap(), Slot::ONLY, &mut expected).await;
    assert_eq!((expected.len(), expected.values().map(Vec::len).sum::<usize>()), (20, 20 * 46));

    let server = Server::start(&[]);
    let pgbouncer = PgBouncer::before(&server);
    for (address, schema) in [(server.address(), "direct"), (pgbouncer.address(), "by way of a pooler")] {
        let options = options().schema(schema);
        let mut last = (0, 0);
        let progress = |done, all| last = (done, all);
        let restored = PostgresStore::restore(&backup, &address, options.clone(), progress).await;
        let restored = restored.unwrap_or_else(|error| panic!("{error}"));
        assert!(last.0 == last.1 && last.1 == restored.rows && restored.rows > 20 * 46, "{last:?}");

        let store = PostgresStore::open(&address, options).await.unwrap();
        let mut found = Buckets::new();
        for number in 0..SLOTS {
            let mut of_slot = Buckets::new();
            let opened = load(&store, Slot::new(number), &mut of_slot).await;
            assert!(of_slot.keys().all(|scope| Slot::of(scope, SLOTS) == Slot::new(number)));
            assert!(opened.restored && !opened.clean && opened.held.is_none());
            assert_eq!((opened.token_floor, opened.epoch), (restored.above.mark, restored.above.epoch + 1));
            assert!(opened.token_floor >= of_file.token_floor && opened.epoch >= of_file.epoch);
            assert_eq!((opened.longest_lease_ms, opened.tickets_since), (12_000, of_file.tickets_since));
            assert_eq!(opened.key, of_file.key);
            found.extend(of_slot);
        }
        assert_eq!(found, expected);

        // It goes on from there: numbers of rows are not given twice.
        let scope = Arc::new(Scope::new("t", "new"));
        let (owner_id, at) = (OwnerId::new(1), Instant::from_millis(9));
        let ended = Change::OwnerEnded { owner: owner_id, names: Vec::new(), reason: OwnerEnd::Ended, at };
        let writes = [owner(1), ended].map(|change| Write::Change { scope: scope.clone(), change });
        let slot = Slot::of(&scope, SLOTS);
        let epoch = restored.above.epoch + 1;
        let batch = CommitBatch { slot, epoch, writer: WriterId(1), first_seq: 1, writes: writes.into() };
        assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    }
    let count = async |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        server.connect().await.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let raw = rusqlite::Connection::open(&file).unwrap();
    let history: i64 = raw.query_row("SELECT count(*) FROM history", [], |row| row.get(0)).unwrap();
    assert!(history >= 20, "{history}");
    assert_eq!(count("direct.history").await, history + 1, "that of the file and the last one");
}

/// An end of an owner and a refusal, so many times.
fn ends_and_refusals(count: u64) -> Vec<Write> {
    let scope = Arc::new(Scope::new("t", "b"));
    let mut writes = Vec::new();
    for number in 1..=count {
        let (at, name) = (Instant::from_millis(number), name("seat"));
        let reason = OwnerEnd::Ended;
        let ended = Change::OwnerEnded { owner: OwnerId::new(number), names: Vec::new(), reason, at };
        let changes = [owner(number), ended];
        writes.extend(changes.map(|change| Write::Change { scope: scope.clone(), change }));
        let (kind, who, mode, owner) = (HistoryKind::Claim, "Bob".into(), None, None);
        let refusal = RefusalRecord { kind, name, mode, who, owner, since: at, at, count: 1 };
        writes.push(Write::Refused { scope: scope.clone(), refusal: Box::new(refusal) });
    }
    writes
}

#[tokio::test]
async fn a_restored_history_is_bounded_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_keeping(folder.path().join("lockhouse.db"), HISTORY).unwrap();
    let slot = Slot::ONLY;
    let Opened { epoch, .. } = store.take_slot(slot, WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
    let batch = CommitBatch { slot, epoch, writer: WriterId(1), first_seq: 1, writes: ends_and_refusals(3) };
    assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    let backup = folder.path().join("backup.db");
    store.backup(backup.clone()).await.unwrap();

    let server = Server::start(&[]);
    let options = options().slots(1);
    PostgresStore::restore(&backup, &server.address(), options.clone(), |_, _| ()).await.unwrap();
    let store = PostgresStore::open(&server.address(), options).await.unwrap();
    let Opened { epoch, .. } = store.take_slot(slot, WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
    let batch = CommitBatch { slot, epoch, writer: WriterId(1), first_seq: 1, writes: ends_and_refusals(2) };
    assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    let numbers = "SELECT array_agg(nth ORDER BY seq) FROM lockhouse.history GROUP BY why = 'refused'";
    let rows = server.connect().await.query(numbers, &[]).await.unwrap();
    let numbers: Vec<Vec<i64>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(numbers, [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]);
}

#[tokio::test]
async fn only_tables_that_no_process_has_used_take_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let backup = backup(folder.path(), 1, 1).await;
    let server = Server::start(&[]);
    let address = server.address();
    let refused = async |options: PostgresOptions, backup: &Path| {
        PostgresStore::restore(backup, &address, options, |_, _| ()).await.unwrap_err()
    };
    let no_backup = refused(options(), &folder.path().join("none.db")).await;
    assert!(
        matches!(no_backup, PostgresRestoreError::Backup(RestoreError::Unusable { .. })),
        "{no_backup:?}"
    );
    let exists = "SELECT to_regnamespace('lockhouse') IS NOT NULL";
    let is_there: bool = server.connect().await.query_one(exists, &[]).await.unwrap().get(0);
    assert!(!is_there, "a backup that is of no use makes no tables");

    // A node that has only joined has used nothing.
    let node = PostgresStore::open(&address, options()).await.unwrap();
    let slot_lease = Duration::from_secs(3);
    let new = NewNode { label: "a".into(), address: "a".into(), slot_lease, secret_mark: [7; 32] };
    let node = node.join(&new).await.unwrap();
    PostgresStore::restore(&backup, &address, options(), |_, _| ()).await.unwrap();
    let of_bucket = Slot::of(&Scope::new("tenant\u{1f}", "bucket 0"), SLOTS);
    let mut buckets = Buckets::new();
    assert!(load(&node, of_bucket, &mut buckets).await.restored);
    assert_eq!(buckets.len(), 1);

    let again = refused(options(), &backup).await;
    let PostgresRestoreError::NotEmpty { place, why } = &again else { panic!("{again:?}") };
    let said = format!("{place} is in use: {why}; name another schema or database");
    assert_eq!((again.to_string(), *why), (said, "slots of it were taken"));

    let untaken = options().schema("untaken");
    PostgresStore::restore(&backup, &address, untaken.clone(), |_, _| ()).await.unwrap();
    let again = refused(untaken.clone(), &backup).await;
    assert!(matches!(again, PostgresRestoreError::NotEmpty { why: "it has buckets", .. }), "{again:?}");
    let others = refused(untaken.slots(4), &backup).await;
    let expected = PostgresRestoreError::Open(PostgresOpenError::OtherSlots {
        place: "".into(),
        found: u32::from(SLOTS),
        asked: 4,
    });
    assert_eq!(std::mem::discriminant(&others), std::mem::discriminant(&expected), "{others:?}");
}

#[tokio::test]
async fn a_restore_that_is_interrupted_leaves_the_tables_empty() {
    let folder = tempfile::tempdir().unwrap();
    let backup = backup(folder.path(), 1, 5000).await;
    let server = Server::start(&[]);
    let address = server.address();
    let (copied, mut is_copied) = mpsc::unbounded_channel();
    // The first of several steps, of which each takes a message to the server and back.
    let restore = PostgresStore::restore(&backup, &address, options(), move |done, all| {
        assert!(done <= all && all > 5000);
        copied.send(done).unwrap();
    });
    tokio::select! {
        biased;
        _ = async { while is_copied.recv().await.unwrap() < 2000 {} } => {}
        restored = restore => panic!("{restored:?}"),
    }
    let count = "SELECT (SELECT count(*) FROM lockhouse.buckets) + (SELECT count(*) FROM lockhouse.locks)
                     + (SELECT count(*) FROM lockhouse.slots WHERE epoch > 0)";
    let rows: i64 = server.connect().await.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(rows, 0);
    let restored = PostgresStore::restore(&backup, &address, options(), |_, _| ()).await.unwrap();
    assert!(restored.rows > 5000);
}
