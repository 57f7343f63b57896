//! The SQLite store keeps every promise.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod place;

use lockhouse_store::conformance;
use place::Sqlite;

macro_rules! on_sqlite {
    ($($promise:ident)*) => { $(
        #[tokio::test]
        async fn $promise() {
            conformance::$promise(&Sqlite::new()).await;
        }
    )* };
}

lockhouse_store::for_each_promise!(on_sqlite);
