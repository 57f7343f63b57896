//! The fence in the caller's own database, on a real SQLite and a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod oracle;
mod postgres;
#[path = "../../../../tests/support/postgres.rs"]
mod server;
mod sqlite;
