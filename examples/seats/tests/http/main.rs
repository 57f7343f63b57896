//! The box office over HTTP.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod booking;
mod live;
#[path = "../../../../tests/support/postgres.rs"]
mod postgres;
mod process;
mod security;
mod stale;
mod theatre;
