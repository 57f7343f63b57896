//! Houses in this process: alone, and over stores.

use std::sync::Arc;

use lockhouse::store::{FaultStore, Faults, MemoryStore, SqliteStore};
use lockhouse::{Bucket, House, ManualClock};

use crate::suite::ground::Ground;

fn in_process(house: House) -> (House, Bucket) {
    let bucket = house.bucket("default");
    (house, bucket)
}

pub(crate) struct Alone(ManualClock);

impl Ground for Alone {
    const KEEPS: bool = false;
    const ANSWERS_AT_ONCE: bool = true;

    type Bucket = Bucket;

    async fn new() -> Self {
        Self(ManualClock::new())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn bucket(&self) -> (House, Bucket) {
        in_process(House::with_options(&self.options()))
    }
}

pub(crate) struct OverMemory(ManualClock, MemoryStore);

impl Ground for OverMemory {
    type Bucket = Bucket;

    async fn new() -> Self {
        Self(ManualClock::new(), MemoryStore::new().unwrap())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn bucket(&self) -> (House, Bucket) {
        in_process(House::open(Arc::new(self.1.reopen()), self.options()).await.unwrap())
    }
}

pub(crate) struct OverSqlite(ManualClock, tempfile::TempDir);

impl Ground for OverSqlite {
    type Bucket = Bucket;

    async fn new() -> Self {
        Self(ManualClock::new(), tempfile::tempdir().unwrap())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn bucket(&self) -> (House, Bucket) {
        let store = SqliteStore::open(self.1.path().join("lockhouse.db")).unwrap();
        in_process(House::open(Arc::new(store), self.options()).await.unwrap())
    }
}

pub(crate) struct OverFaults(ManualClock, MemoryStore);

impl Ground for OverFaults {
    type Bucket = Bucket;

    async fn new() -> Self {
        Self(ManualClock::new(), MemoryStore::new().unwrap())
    }

    fn clock(&self) -> &ManualClock {
        &self.0
    }

    async fn bucket(&self) -> (House, Bucket) {
        let faults = Faults { answer_lost: 150, batch_lost: 50, late: 50, stalled: 200, ..Faults::NONE };
        let store = FaultStore::new(Arc::new(self.1.reopen()), 7, faults);
        in_process(House::open(Arc::new(store), self.options()).await.unwrap())
    }
}
