//! On SQLite, in a file, as several processes would share it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use lockhouse::fence::{FenceError, Stale, sqlite};
use lockhouse::{FencingToken, Mode};
use proptest::prelude::*;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::oracle::{MATRIX, Oracle, Step, visits};

/// A database file, removed in the end.
struct Shop {
    folder: PathBuf,
}

impl Shop {
    fn new() -> Self {
        static SHOPS: AtomicU32 = AtomicU32::new(0);
        let nth = SHOPS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lockhouse-fence-{}-{nth}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let shop = Self { folder };
        let db = shop.connect();
        db.pragma_update(None, "journal_mode", "wal").unwrap();
        sqlite::create_table(&db).unwrap();
        sqlite::create_table(&db).unwrap();
        db.execute_batch("create table writes (who text not null)").unwrap();
        shop
    }

    fn connect(&self) -> Connection {
        let file: &Path = &self.folder.join("shop.db");
        let db = Connection::open(file).unwrap();
        // A transaction of another connection is reported at once.
        db.busy_timeout(std::time::Duration::ZERO).unwrap();
        db
    }

    fn writes(&self) -> Vec<String> {
        let db = self.connect();
        let mut select = db.prepare("select who from writes order by rowid").unwrap();
        let rows = select.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One visit in a transaction of its own, which rolls back if it is refused.
fn visit(db: &mut Connection, step: &Step) -> Result<(), Stale> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    match sqlite::pass(&tx, &step.resource, step.token(), step.mode) {
        Ok(()) => {
            tx.commit().unwrap();
            Ok(())
        }
        Err(FenceError::Stale(stale)) => Err(stale),
        Err(FenceError::Database(error)) => panic!("{error}"),
    }
}

/// The work of an application: fence and write, in one transaction.
fn write(db: &mut Connection, who: &str, token: u64) -> Result<(), FenceError<rusqlite::Error>> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(FenceError::Database)?;
    tx.execute("insert into writes values (?1)", [who]).map_err(FenceError::Database)?;
    sqlite::pass(&tx, b"stock/chair", FencingToken::new(token), Mode::Exclusive)?;
    tx.commit().map_err(FenceError::Database)
}

#[test]
fn sqlite_passes_what_the_matrix_passes() {
    let shop = Shop::new();
    let mut db = shop.connect();
    for (nth, (first, second, passes)) in MATRIX.into_iter().enumerate() {
        for (token, passes) in (4..).zip(passes) {
            let resource = format!("{nth}/{token}");
            visit(&mut db, &Step::new(resource.as_bytes(), 5, first)).unwrap();
            let second = Step::new(resource.as_bytes(), token, second);
            let wanted = if passes { Ok(()) } else { Err(second.refused(5)) };
            assert_eq!(visit(&mut db, &second), wanted, "{first:?} 5, then {second:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn sqlite_agrees_with_the_oracle(visits in visits()) {
        let mut db = Connection::open_in_memory().unwrap();
        sqlite::create_table(&db).unwrap();
        let mut oracle = Oracle::default();
        for step in visits {
            prop_assert_eq!(visit(&mut db, &step), oracle.pass(&step));
        }
    }
}

#[test]
fn a_zombie_never_writes_to_sqlite() {
    let shop = Shop::new();
    let (mut zombie, mut next) = (shop.connect(), shop.connect());
    // The holder begins its critical section, and sleeps. Its lock is lost, and the next holder begins before
    // it wakes up.
    visit(&mut zombie, &Step::new(b"stock/chair", 5, Mode::Exclusive)).unwrap();
    visit(&mut next, &Step::new(b"stock/chair", 6, Mode::Exclusive)).unwrap();
    let refused = write(&mut zombie, "zombie", 5).unwrap_err();
    let FenceError::Stale(stale) = refused else { panic!("{refused}") };
    assert_eq!((stale.presented.get(), stale.needed.get()), (5, 6));
    assert_eq!(stale.to_string(), "token 5 for resource \"stock/chair\" is stale: it must be at least 6");
    write(&mut next, "next", 6).unwrap();
    assert_eq!(shop.writes(), ["next"]);
}

#[test]
fn of_two_transactions_on_sqlite_the_stale_one_never_writes() {
    let shop = Shop::new();
    let (mut old, mut new) = (shop.connect(), shop.connect());
    let tx = new.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    sqlite::pass(&tx, b"stock/chair", FencingToken::new(6), Mode::Exclusive).unwrap();
    let FenceError::Database(busy) = write(&mut old, "old", 5).unwrap_err() else { panic!("did not wait") };
    assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    tx.commit().unwrap();
    assert!(matches!(write(&mut old, "old", 5), Err(FenceError::Stale(_))));
    assert_eq!(shop.writes(), Vec::<String>::new());
}

#[test]
fn a_transaction_that_rolls_back_leaves_the_marks_of_sqlite_as_they_were() {
    let shop = Shop::new();
    let (mut old, mut new) = (shop.connect(), shop.connect());
    let tx = new.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    sqlite::pass(&tx, b"stock/chair", FencingToken::new(6), Mode::Exclusive).unwrap();
    drop(tx);
    write(&mut old, "old", 5).unwrap();
    assert_eq!(shop.writes(), ["old"]);
}

#[test]
fn without_a_table_the_fence_of_sqlite_says_so() {
    let mut db = Connection::open_in_memory().unwrap();
    let tx = db.transaction().unwrap();
    let error = sqlite::pass(&tx, b"r", FencingToken::new(1), Mode::Shared).unwrap_err();
    assert!(matches!(error, FenceError::Database(_)));
    assert!(error.to_string().contains("no such table: lockhouse_fence"), "{error}");
}
