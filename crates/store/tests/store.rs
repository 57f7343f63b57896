//! The tests of the stores, as one program: each program is linked anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod faults;
mod files;
mod full;
mod kill;
mod memory;
#[path = "../../../tests/support/pgbouncer.rs"]
mod pgbouncer;
mod place;
mod postgres;
mod postgres_connections;
mod postgres_damage;
mod postgres_fleet;
mod postgres_generation;
mod postgres_history;
mod postgres_restore;
#[path = "../../../tests/support/postgres.rs"]
mod server;
mod sqlite;
