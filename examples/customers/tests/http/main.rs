//! The application as browsers see it: its router without a network, and its process.

#![allow(clippy::unwrap_used, reason = "tests")]

mod editing;
mod elsewhere;
mod errors;
mod merging;
mod office;
#[path = "../../../../tests/support/postgres.rs"]
mod postgres;
mod process;
mod sessions;
mod stale;
