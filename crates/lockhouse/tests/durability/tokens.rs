//! How far fencing tokens go on, and how many marks are kept for that.

use std::path::Path;
use std::sync::Arc;

use lockhouse::store::{
    CommitBatch, CommitOutcome, MarkOf, MemoryStore, RecoveredRow, Scope, Slot, SqliteStore, Store,
    TokenMark, Write, WriterId, restore,
};
use lockhouse::{Bucket, BucketKey, House, Options, StoreState};
use tempfile::TempDir;
use tokio::task::JoinSet;

async fn open(file: &Path) -> House {
    let store = SqliteStore::open(file).unwrap();
    House::open(Arc::new(store), Options::new()).await.unwrap()
}

async fn close(house: House) {
    assert_eq!(house.close().await, StoreState::Closed { clean: true });
}

/// A life of the bucket, with one grant.
async fn token(bucket: Bucket) -> u64 {
    let agent = bucket.agent("web").unwrap();
    agent.locks().request("n").await.unwrap().fencing_token().get()
}

/// A folder in memory, where there is one: here nothing need survive the power.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

#[tokio::test]
async fn five_thousand_lives_of_a_bucket_use_up_what_they_give_and_a_restore_goes_on_above() {
    const LIVES: u64 = 5000;
    let folder = folder();
    let (file, backup) = (folder.path().join("lockhouse.db"), folder.path().join("backup.db"));
    let house = open(&file).await;
    house.store().unwrap().backup(backup.clone()).await.unwrap();
    let mut last = 0;
    for _ in 0..LIVES {
        let next = token(house.bucket("b")).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    assert_eq!(last, LIVES, "no life uses up more than it gives");
    close(house).await;

    let house = open(&file).await;
    let next = token(house.bucket("b")).await;
    assert_eq!(next, last + 1, "a clean stop burns nothing either");
    close(house).await;

    restore(&backup, &file).unwrap();
    let house = open(&file).await;
    assert!(token(house.bucket("b")).await > next);
    close(house).await;
}

#[tokio::test]
async fn a_bucket_in_which_only_locks_were_reclaimed_goes_on_above_its_former_lives() {
    let store = MemoryStore::new().unwrap();
    let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut drop).await.unwrap();
    let scope = Arc::new(Scope::new("", "b"));
    let mark = TokenMark { of: MarkOf::Tenant("".into()), up_to: 50 };
    let writes = vec![
        Write::BucketDropped { scope: scope.clone(), mark: Some(mark) },
        // The store learns of a reclaimed lock, whose token was reserved by a former life.
        Write::NeedsRecovery { scope },
    ];
    let (slot, epoch, writer) = (Slot::ONLY, opened.epoch, WriterId(1));
    let batch = CommitBatch { slot, epoch, writer, first_seq: 1, writes };
    assert_eq!(store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    let house = House::open(Arc::new(store.reopen()), Options::new()).await.unwrap();
    assert_eq!(token(house.bucket("b")).await, 51);
}

fn partition(tenant: &str, number: usize) -> BucketKey {
    BucketKey { bucket: "b".to_owned(), partition: format!("\u{1f}{tenant}\u{1f}\u{1f}\u{1f}{number}") }
}

/// A grant in so many partitions of a tenant: their tokens.
async fn in_partitions(house: &House, tenant: &str, count: usize) -> Vec<u64> {
    let mut grants = JoinSet::new();
    for number in 0..count {
        let bucket = house.bucket(partition(tenant, number));
        grants.spawn(async move { (number, token(bucket).await) });
    }
    let mut tokens = grants.join_all().await;
    tokens.sort_unstable();
    tokens.into_iter().map(|(_, token)| token).collect()
}

/// How many marks the file has, and how many a start is given.
async fn marks(file: &Path) -> (usize, usize) {
    let raw = rusqlite::Connection::open(file).unwrap();
    let sql = "SELECT (SELECT count(*) FROM tenants) + (SELECT count(*) FROM floors)";
    let rows: i64 = raw.query_row(sql, [], |row| row.get(0)).unwrap();
    drop(raw);
    let store = SqliteStore::open(file).unwrap();
    let mut loaded = 0;
    let mut visit = |row| loaded += usize::from(matches!(row, RecoveredRow::Mark(_)));
    store.take_slot(Slot::ONLY, WriterId(1), &mut visit).await.unwrap();
    store.close().await.unwrap();
    (rows as usize, loaded)
}

#[tokio::test]
async fn marks_of_many_partitions_have_a_bound_in_the_file_and_over_restarts() {
    const PARTITIONS: usize = 2500;
    let folder = folder();
    let file = folder.path().join("lockhouse.db");
    let mut last = vec![0; PARTITIONS];
    for round in 0..3 {
        let house = open(&file).await;
        let tokens = in_partitions(&house, "busy", PARTITIONS).await;
        assert!(tokens.iter().zip(&last).all(|(next, last)| next > last), "tokens of round {round}");
        last = tokens;
        close(house).await;
        // A thousand partitions apart, and the rest of the tenant as one.
        assert_eq!(marks(&file).await, (1001, 1001), "round {round}");
    }
    let house = open(&file).await;
    assert_eq!(in_partitions(&house, "quiet", 1).await, [1], "it learns nothing of the busy one");
    close(house).await;
    // Marks that are no higher than the tenant's own are folded into it at a start.
    assert_eq!(marks(&file).await, (2, 2));
}

#[tokio::test]
async fn a_file_with_more_marks_than_are_remembered_is_folded_when_it_is_opened() {
    let folder = folder();
    let file = folder.path().join("lockhouse.db");
    close(open(&file).await).await;
    let raw = rusqlite::Connection::open(&file).unwrap();
    let mut insert = raw.prepare("INSERT INTO tenants VALUES (?1, ?2)").unwrap();
    raw.execute_batch("BEGIN").unwrap();
    for number in 0..5000 {
        insert.execute((partition("old", number).partition, 100 + number as i64)).unwrap();
    }
    insert.execute((partition("other", 0).partition, 7)).unwrap();
    raw.execute_batch("COMMIT").unwrap();
    drop(insert);
    drop(raw);

    close(open(&file).await).await;
    assert_eq!(marks(&file).await, (1002, 1002));
    let house = open(&file).await;
    let tokens = in_partitions(&house, "old", 5000).await;
    assert!(tokens.iter().enumerate().all(|(number, token)| *token > 100 + number as u64));
    assert_eq!(in_partitions(&house, "other", 2).await, [8, 1]);
    close(house).await;
}
