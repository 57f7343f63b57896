//! The tests of the command line, with servers as processes of their own: nothing here is built anew where
//! the server changes.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

mod command_line;
mod commands;
mod old_programs;
#[path = "../../../tests/support/postgres.rs"]
mod postgres;
#[path = "../../../tests/support/process.rs"]
mod process;
#[path = "../../../tests/support/program.rs"]
mod program;
#[path = "../../../tests/support/running.rs"]
mod running;
mod top;
