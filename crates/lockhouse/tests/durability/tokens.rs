//! How far fencing tokens go on, and how many marks are kept for that.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::store::{
    CommitBatch, CommitOutcome, MarkOf, MemoryStore, RecoveredRow, Scope, Slot, SqliteStore, Store,
    TokenMark, Write, WriterId, restore,
};
use lockhouse::{Bucket, BucketKey, House, Left, ManualClock, Options, StoreState};
use tempfile::TempDir;
use tokio::task::JoinSet;

async fn open(file: &Path) -> House {
    let store = SqliteStore::open(file).unwrap();
    House::open(Arc::new(store), Options::new()).await.unwrap()
}

/// The house is opened by that clock.
async fn open_at(file: &Path, clock: &ManualClock) -> House {
    let store = SqliteStore::open(file).unwrap();
    House::open(Arc::new(store), Options::new().clock(clock)).await.unwrap()
}

/// A clock whose calendar stands at 1970, so that tokens begin at 1 where nothing is known.
fn no_calendar() -> ManualClock {
    let clock = ManualClock::new();
    clock.set_calendar(i64::MIN);
    clock
}

async fn close(house: House) {
    assert_eq!(house.close().await, StoreState::Closed(Left::Nothing));
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
    let first = token(house.bucket("b")).await;
    let mut last = first;
    for _ in 0..LIVES {
        let next = token(house.bucket("b")).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    assert_eq!(last, first + LIVES, "no life uses up more than it gives");
    close(house).await;

    let house = open_at(&file, &no_calendar()).await;
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
    let options = Options::new().clock(&no_calendar());
    let house = House::open(Arc::new(store.reopen()), options).await.unwrap();
    assert_eq!(token(house.bucket("b")).await, 51);
}

#[tokio::test]
async fn a_table_of_which_nothing_is_left_goes_on_above_every_token_that_it_gave() {
    let folder = folder();
    let (file, copy) = (folder.path().join("lockhouse.db"), folder.path().join("copy.db"));
    let clock = ManualClock::new();
    let mut given = Vec::new();
    let mut life = async |house: House| {
        for name in ["b", "another"] {
            given.push(token(house.bucket(name)).await);
        }
        close(house).await;
        // What a busy bucket gives meanwhile.
        clock.advance(Duration::from_secs(1));
    };
    life(open_at(&file, &clock).await).await;
    std::fs::copy(&file, &copy).unwrap();
    life(open_at(&file, &clock).await).await;
    // The file is lost.
    std::fs::remove_file(&file).unwrap();
    life(open_at(&file, &clock).await).await;
    // It is rolled back by other means than `restore`.
    std::fs::rename(&copy, &file).unwrap();
    life(open_at(&file, &clock).await).await;
    // Nothing is ever kept.
    let store = MemoryStore::new().unwrap();
    life(House::open(Arc::new(store), Options::new().clock(&clock)).await.unwrap()).await;
    life(House::with_options(&Options::new().clock(&clock))).await;
    // Two buckets know nothing of each other.
    for bucket in 0..2 {
        let tokens: Vec<_> = given.iter().skip(bucket).step_by(2).collect();
        assert!(tokens.is_sorted_by(|a, b| **a + (1 << 19) < **b), "{tokens:?}");
    }
}

#[tokio::test]
async fn a_calendar_that_was_set_back_takes_no_token_back() {
    let folder = folder();
    let file = folder.path().join("lockhouse.db");
    let clock = ManualClock::new();
    let mut last = 0;
    for (ahead, grants) in [
        (0, true),
        (-3_600_000, true),
        (3_600_000, true),
        (i64::MIN, true),
        (1 << 50, true),
        (0, true),
        // A life without a grant drops the bucket, with its mark below the clock.
        (7_200_000, false),
        (i64::MIN, true),
    ] {
        clock.set_calendar(ahead);
        let house = open_at(&file, &clock).await;
        if grants {
            let next = token(house.bucket("b")).await;
            assert!(next > last, "{next} after {last}");
            last = next;
        }
        close(house).await;
    }
}

/// A copy of the file and its log shows what a kill would have left.
#[tokio::test]
async fn a_mark_is_in_the_file_before_its_tokens_are_announced() {
    let folder = folder();
    let (file, copy) = (folder.path().join("lockhouse.db"), folder.path().join("copy.db"));
    let clock = no_calendar();
    let house = open_at(&file, &clock).await;
    let bucket = house.bucket("b");
    let agent = bucket.agent("web").unwrap();
    let lock = agent.locks().request("n").await.unwrap();
    for suffix in ["", "-wal"] {
        let beside = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(beside(&file), beside(&copy)).unwrap();
    }
    let next = open_at(&copy, &clock).await;
    assert!(token(next.bucket("b")).await > lock.fencing_token().get());
    drop(lock);
    close(house).await;
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
    let clock = no_calendar();
    for round in 0..3 {
        let house = open_at(&file, &clock).await;
        let tokens = in_partitions(&house, "busy", PARTITIONS).await;
        assert!(tokens.iter().zip(&last).all(|(next, last)| next > last), "tokens of round {round}");
        last = tokens;
        close(house).await;
        // A thousand partitions apart, and the rest of the tenant as one.
        assert_eq!(marks(&file).await, (1001, 1001), "round {round}");
    }
    let house = open_at(&file, &clock).await;
    assert_eq!(in_partitions(&house, "quiet", 1).await, [1], "it learns nothing of the busy one");
    close(house).await;
    // Marks that are no higher than the tenant's own are folded into it at a start.
    assert_eq!(marks(&file).await, (2, 2));
}

#[tokio::test]
async fn a_file_with_more_marks_than_are_remembered_is_folded_when_it_is_opened() {
    let folder = folder();
    let file = folder.path().join("lockhouse.db");
    let clock = no_calendar();
    close(open_at(&file, &clock).await).await;
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

    close(open_at(&file, &clock).await).await;
    assert_eq!(marks(&file).await, (1002, 1002));
    let house = open_at(&file, &clock).await;
    let tokens = in_partitions(&house, "old", 5000).await;
    assert!(tokens.iter().enumerate().all(|(number, token)| *token > 100 + number as u64));
    assert_eq!(in_partitions(&house, "other", 2).await, [8, 1]);
    close(house).await;
}
