//! The memory store keeps every promise.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod place;

use lockhouse_store::conformance;
use place::Memory;

macro_rules! on_memory {
    ($($promise:ident)*) => { $(
        #[tokio::test]
        async fn $promise() {
            conformance::$promise(&Memory::new()).await;
        }
    )* };
}

lockhouse_store::for_each_promise!(on_memory);
