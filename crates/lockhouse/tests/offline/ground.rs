//! Where the state is.

use std::sync::Arc;

use lockhouse::store::{FaultStore, Faults, MemoryStore, SqliteStore};
use lockhouse::{Bucket, House, ManualClock, Options};

/// Somewhere a house can stand, again and again.
pub(crate) trait Ground: Sized {
    /// Whether anything outlives the house.
    const KEEPS: bool = true;

    async fn new() -> Self;

    fn clock(&self) -> &ManualClock;

    async fn house(&self) -> House;

    async fn bucket(&self) -> (House, Bucket) {
        let house = self.house().await;
        let bucket = house.bucket("default");
        (house, bucket)
    }

    fn options(&self) -> Options {
        Options::new().clock(self.clock())
    }
}

/// Ends a house as a crash does, as far as its store can tell.
pub(crate) async fn kill(house: House) {
    house.store().unwrap().close().await.unwrap();
    drop(house);
}

pub(crate) struct Alone(ManualClock);

impl Ground for Alone {
    const KEEPS: bool = false;

    async fn new() -> Self {
        Self(ManualClock::new())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn house(&self) -> House {
        House::with_options(&self.options())
    }
}

pub(crate) struct OverMemory(ManualClock, MemoryStore);

impl Ground for OverMemory {
    async fn new() -> Self {
        Self(ManualClock::new(), MemoryStore::new().unwrap())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn house(&self) -> House {
        House::open(Arc::new(self.1.reopen()), self.options()).await.unwrap()
    }
}

pub(crate) struct OverSqlite(ManualClock, tempfile::TempDir);

impl Ground for OverSqlite {
    async fn new() -> Self {
        Self(ManualClock::new(), tempfile::tempdir().unwrap())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn house(&self) -> House {
        let store = SqliteStore::open(self.1.path().join("lockhouse.db")).unwrap();
        House::open(Arc::new(store), self.options()).await.unwrap()
    }
}

pub(crate) struct OverFaults(ManualClock, MemoryStore);

impl Ground for OverFaults {
    async fn new() -> Self {
        Self(ManualClock::new(), MemoryStore::new().unwrap())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn house(&self) -> House {
        let faults = Faults { answer_lost: 150, section_lost: 50, late: 50, stalled: 200, ..Faults::NONE };
        let store = FaultStore::new(Arc::new(self.1.reopen()), 7, faults);
        House::open(Arc::new(store), self.options()).await.unwrap()
    }
}
