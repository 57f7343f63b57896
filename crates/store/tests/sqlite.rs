//! The SQLite store keeps every promise.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockhouse_store::conformance::{self, Harness};
use lockhouse_store::{HistoryBounds, SqliteStore, Store, StoreFuture};

use crate::place::Folder;

/// A database file. A kill leaves the bytes that the file and its log have at that moment, as a killed
/// process does: the work of the store at its end goes to the former files. kill.rs kills real processes.
pub(crate) struct Sqlite {
    folder: Folder,
    life: AtomicU32,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self { folder: Folder::new(), life: AtomicU32::new(0) }
    }

    fn database(&self) -> PathBuf {
        self.folder.file(&format!("life-{}.db", self.life.load(Ordering::Relaxed)))
    }
}

impl Harness for Sqlite {
    fn open(&self) -> StoreFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            // What the samples say has ended is long ago.
            let history = HistoryBounds { age: None, ..HistoryBounds::DEFAULT };
            let store =
                SqliteStore::open_keeping(self.database(), history).unwrap_or_else(|error| panic!("{error}"));
            Arc::new(store) as _
        })
    }

    fn kill(&self, store: Arc<dyn Store>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let past = self.database();
            self.life.fetch_add(1, Ordering::Relaxed);
            for suffix in ["", "-wal"] {
                let with = |path: PathBuf| PathBuf::from(format!("{}{suffix}", path.display()));
                if with(past.clone()).exists() {
                    fs::copy(with(past.clone()), with(self.database())).unwrap();
                }
            }
            store.close().await.unwrap();
        })
    }
}

macro_rules! on_sqlite {
    ($($promise:ident)*) => { $(
        #[tokio::test]
        async fn $promise() {
            conformance::$promise(&Sqlite::new()).await;
        }
    )* };
}

lockhouse_store::for_each_promise!(on_sqlite);
