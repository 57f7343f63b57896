//! The memory store keeps every promise.

use std::sync::Arc;

use lockhouse_store::conformance::{self, Harness};
use lockhouse_store::{MemoryStore, Store, StoreFuture};

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

macro_rules! on_memory {
    ($($promise:ident)*) => { $(
        #[tokio::test]
        async fn $promise() {
            conformance::$promise(&Memory::new()).await;
        }
    )* };
}

lockhouse_store::for_each_promise!(on_memory);
