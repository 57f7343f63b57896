//! Several nodes over one PostgreSQL: they share the slots, move them, and outlive each other.

#![allow(clippy::unwrap_used, reason = "tests")]

mod moving;
mod nodes;
#[path = "../../../../tests/support/postgres.rs"]
mod server;
mod trouble;
