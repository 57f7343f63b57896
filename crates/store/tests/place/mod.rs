//! Folders that are removed when the test ends, and SQLite databases that are killed in them.

#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod mount;
pub(crate) mod process;
pub(crate) mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockhouse_store::conformance::Harness;
use lockhouse_store::{HistoryBounds, MemoryStore, SqliteStore, Store, StoreFuture};

/// A new folder.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("store-{}-{count}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Every file in it with its content.
    pub(crate) fn content(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
        files.sort();
        files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The places of that text in a file: SQLite leaves a copy behind where it has moved a row.
pub(crate) fn places(of: &[u8], text: &[u8]) -> Vec<usize> {
    let windows = of.windows(text.len()).enumerate();
    windows.filter(|(_, window)| *window == text).map(|(at, _)| at).collect()
}

/// The memory store: after a kill, the next process finds it unchanged.
pub(crate) struct Memory(pub(crate) MemoryStore);

impl Memory {
    pub(crate) fn new() -> Self {
        Self(MemoryStore::new().unwrap())
    }
}

impl Harness for Memory {
    fn open(&self) -> StoreFuture<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(self.0.reopen()) as _ })
    }

    fn kill(&self, store: Arc<dyn Store>) -> StoreFuture<'_, ()> {
        Box::pin(async { drop(store) })
    }
}

/// A database file. A kill leaves the bytes that the file and its log have at that moment, as a killed
/// process does: the work of the store at its end goes to the former files. tests/kill.rs kills real
/// processes.
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
