//! The tests of the library, as one program: each program is linked anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviour;
mod cancellation;
mod durability;
mod fence;
mod fleet;
mod held_list;
mod implicit;
mod memory_budget;
mod offline;
mod port;
mod recovery;
mod requests;
#[path = "../../../tests/support/postgres.rs"]
mod server;
// At the root here as in the tests of the server, for the paths of its macro.
#[path = "offline/suite/mod.rs"]
mod suite;
mod surroundings;
