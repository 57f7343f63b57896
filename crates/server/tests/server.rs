//! The tests of the server from the outside. They are one program, as each program is linked with the whole
//! server.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

mod certificates;
mod cluster;
mod config;
mod doctor;
mod events;
mod exposition;
mod http;
mod metrics;
mod offline;
#[path = "../../../tests/support/postgres.rs"]
mod postgres;
#[path = "../../../tests/support/process.rs"]
mod process;
#[path = "../../../tests/support/program.rs"]
mod program;
mod remote;
#[path = "../../../tests/support/running.rs"]
mod running;
mod sessions;
#[path = "../../lockhouse/tests/offline/suite/mod.rs"]
mod suite;
mod tls;
