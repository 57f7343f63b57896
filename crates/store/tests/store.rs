//! The tests of the stores, as one program: each program is linked anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "sqlite")]
mod backup;
#[cfg(all(feature = "conformance", feature = "sqlite"))]
mod faults;
#[cfg(feature = "sqlite")]
mod files;
#[cfg(feature = "sqlite")]
mod full;
#[cfg(feature = "sqlite")]
mod kill;
#[cfg(feature = "conformance")]
mod memory;
#[cfg(feature = "postgres")]
#[path = "../../../tests/support/pgbouncer.rs"]
mod pgbouncer;
#[cfg(feature = "sqlite")]
mod place;
#[cfg(all(feature = "conformance", feature = "postgres", feature = "sqlite"))]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_connections;
#[cfg(feature = "postgres")]
mod postgres_fleet;
#[cfg(feature = "postgres")]
mod postgres_generation;
#[cfg(feature = "postgres")]
mod postgres_history;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod postgres_restore;
#[cfg(feature = "postgres")]
#[path = "../../../tests/support/postgres.rs"]
mod server;
#[cfg(all(feature = "conformance", feature = "sqlite"))]
mod sqlite;
