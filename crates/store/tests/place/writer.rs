//! A writer that keeps numbers, each as a section of several locks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lockhouse_core::{Change, FencingToken, Instant, LockRecord, Mode, NameBuf, OwnerId, OwnerRecord, Seal};
use lockhouse_store::{
    Fatal, Fate, Kept, Opened, Scope, Section, Slot, SqliteStore, Store, TakeError, Write, WriterId,
};

/// Locks in each section.
pub(crate) const PARTS: u64 = 10;

pub(crate) struct Writer {
    pub(crate) store: SqliteStore,
    pub(crate) opened: Opened,
    /// The numbers that were there at the beginning, and how many locks of each.
    pub(crate) found: BTreeMap<u64, u64>,
    pub(crate) kept: Vec<Kept>,
    next_seq: u64,
}

impl Writer {
    pub(crate) async fn open(path: &Path) -> Self {
        let store = SqliteStore::open(path).unwrap_or_else(|error| panic!("{error}"));
        Self::take(store).await.unwrap_or_else(|(_, error)| panic!("{error}"))
    }

    pub(crate) async fn take(store: SqliteStore) -> Result<Self, (SqliteStore, TakeError)> {
        let mut kept = Vec::new();
        let taken = store.take_slot(Slot::ONLY, WriterId(1), &mut |piece| kept.push(piece)).await;
        let opened = match taken {
            Ok(opened) => opened,
            Err(error) => return Err((store, error)),
        };
        let mut found = BTreeMap::new();
        for piece in &kept {
            if let Kept::Change { change: Change::Locked(lock), .. } = piece {
                *found.entry(lock.name.as_name().as_str().unwrap().parse().unwrap()).or_default() += 1;
            }
        }
        Ok(Self { store, opened, found, kept, next_seq: 1 })
    }

    /// Tries to keep a number, with so many bytes beside it.
    pub(crate) async fn keep(&mut self, number: u64, bytes: usize) -> Result<Fate, Fatal> {
        let section = self.section(number, bytes);
        self.commit(section).await
    }

    /// Keeps many numbers at once.
    pub(crate) async fn keep_all(&mut self, numbers: std::ops::RangeInclusive<u64>, bytes: usize) {
        let mut sections = Vec::new();
        for number in numbers {
            let section = self.section(number, bytes);
            self.next_seq = section.last_seq() + 1;
            sections.push(section);
        }
        let fates = self.store.commit(sections).await.unwrap_or_else(|fatal| panic!("{fatal}"));
        assert!(fates.iter().all(|fate| *fate == Fate::Committed), "{fates:?}");
    }

    /// The section with which that is tried.
    pub(crate) fn section(&self, number: u64, bytes: usize) -> Arc<Section> {
        self.section_of((0..PARTS).map(|part| Change::Locked(lock(number, part, bytes))))
    }

    pub(crate) async fn write(&mut self, changes: Vec<Change>) -> Result<Fate, Fatal> {
        let section = self.section_of(changes);
        self.commit(section).await
    }

    fn section_of(&self, changes: impl IntoIterator<Item = Change>) -> Arc<Section> {
        let scope = Arc::new(Scope::new("t", "b"));
        let write = |change| Write::Change { scope: Arc::clone(&scope), change };
        let writes = changes.into_iter().map(write).collect();
        let (epoch, first_seq) = (self.opened.epoch, self.next_seq);
        Arc::new(Section { slot: Slot::ONLY, epoch, writer: WriterId(1), first_seq, writes })
    }

    async fn commit(&mut self, section: Arc<Section>) -> Result<Fate, Fatal> {
        let last_seq = section.last_seq();
        let fate = self.store.commit(vec![section]).await?.remove(0);
        if fate == Fate::Committed {
            self.next_seq = last_seq + 1;
        }
        Ok(fate)
    }

    pub(crate) async fn close(self) {
        self.store.close().await.unwrap_or_else(|fatal| panic!("{fatal}"));
    }
}

pub(crate) fn lock(number: u64, part: u64, bytes: usize) -> LockRecord {
    LockRecord {
        name: NameBuf::new(&number.to_string()).unwrap(),
        owner: OwnerId::new(part),
        mode: Mode::Shared,
        token: FencingToken::new(1 + number * PARTS + part),
        since: Instant::from_millis(1_790_000_000_000),
        metadata: Some("x".repeat(bytes / PARTS as usize).into()),
    }
}

pub(crate) fn owner(number: u64) -> OwnerRecord {
    OwnerRecord {
        owner: OwnerId::new(number),
        label: "Ann".into(),
        metadata: None,
        ttl_ms: 60_000,
        since: Instant::from_millis(1_790_000_000_000),
        ends: None,
        seal: Seal(7),
    }
}
