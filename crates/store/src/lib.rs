//! Where lockhouse keeps what it must not forget: offline locks, claims, assignments, and how far fencing tokens may go.
//!
//! ```text
//!   take_slot(slot, writer, visit) ──▶ Opened      a new epoch, what is needed to recover
//!                     │
//!                     └──▶ Kept, Kept, Kept …      the durable state, in an order that rebuilds it
//!
//!   commit(Section, Section, …) ──▶ Fate, Fate, …  each section whole or not at all
//! ```
//!
//! [`Store`] is the port. A store never knows clocks: every [`Instant`](lockhouse_core::Instant) in what it keeps counts
//! milliseconds of wall time since 1970, and whoever calls it converts. It never knows time limits either: what has run out
//! is told to it as a change like any other.
//!
//! | store | for | survives |
//! |---|---|---|
//! | [`MemoryStore`] | tests, programs that need nothing kept | nothing |
#![cfg_attr(feature = "sqlite", doc = "| [`SqliteStore`] | one machine | `kill -9` and the loss of power |")]
//!
//! Whoever writes another one runs the suite of the feature `conformance` over it, which has a store beside it that fails by
//! a seed.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "conformance")]
mod fault;
mod kept;
mod memory;
mod port;
mod section;
#[cfg(feature = "sqlite")]
mod sqlite;
mod state;
mod turn;

pub use error::{BackupError, Fatal, TakeError, Unavailable};
#[cfg(feature = "conformance")]
pub use fault::{FaultCount, FaultStore, Faults};
pub use kept::{Kept, Opened, SecretKey};
pub use memory::MemoryStore;
pub use port::{Answer, Store};
pub use section::{Fate, Scope, Section, Slot, Write, WriterId};
#[cfg(feature = "sqlite")]
pub use sqlite::{OpenError, RestoreError, Restored, SqliteStore, restore};
