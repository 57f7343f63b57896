//! The tests of the library as the client of a server, as one program. The server is the program `lockhouse`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviour;
#[path = "../../../tests/support/process.rs"]
mod process;
#[path = "../../../tests/support/program.rs"]
mod program;
mod remote;
