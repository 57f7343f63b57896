//! The tests of the library, as one program: each program is linked anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviour;
mod cancellation;
mod durability;
#[cfg(all(feature = "fence-postgres", feature = "fence-sqlite"))]
mod fence;
#[cfg(all(feature = "fence-postgres", feature = "postgres"))]
mod fleet;
mod held_list;
#[cfg(feature = "tower")]
mod implicit;
mod memory_budget;
mod offline;
mod port;
mod recovery;
mod requests;
#[cfg(feature = "fence-postgres")]
#[path = "../../../tests/support/postgres.rs"]
mod server;
// At the root here as in the tests of the server, for the paths of its macro.
#[path = "offline/suite/mod.rs"]
mod suite;
mod surroundings;
