//! The HTTP API over real sockets of real processes.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

mod calls;
mod claims;
mod commands;
mod disk;
mod docs;
mod edges;
#[cfg(target_os = "linux")]
mod failing_disk;
mod headers;
mod locks;
mod places;
#[path = "../../../../tests/support/postgres.rs"]
mod postgres;
#[path = "../process/mod.rs"]
mod process;
mod refusals;
mod views;
