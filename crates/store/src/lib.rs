//! The stores of lockhouse's durable state: offline locks, claims, assignments, and the highest fencing token
//! that may be given.
//!
//! ```text
//!   take_slot(slot, writer, visit) ──▶ Opened      a new epoch, what is needed to recover
//!                     │
//!                     └──▶ RecoveredRow, …         the durable state, in an order that rebuilds it
//!
//!   commit(CommitBatch, …) ──▶ CommitOutcome, …    each batch whole or not at all
//! ```
//!
//! [`Store`] is the port. A store never knows clocks: every [`Instant`](lockhouse_core::Instant) in its state
//! counts milliseconds of wall time since 1970, which the caller converts. A store knows no time limits
//! either: an end by time is a change like any other.
//!
//! | store | for | survives |
//! |---|---|---|
//! | [`MemoryStore`] | tests, programs without durable state | nothing |
#![cfg_attr(feature = "sqlite", doc = "| [`SqliteStore`] | one machine | `kill -9` and the loss of power |")]
#![cfg_attr(
    feature = "postgres",
    doc = "| [`PostgresStore`] | several machines | whatever the database survives |"
)]
//!
//! Authors of another store run the suite of the feature `conformance` over it. Beside the suite is a store
//! that fails by a seed.

mod batch;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "conformance")]
mod fault;
mod fleet;
mod held_list;
mod history;
mod leap;
mod memory;
mod port;
#[cfg(feature = "postgres")]
mod postgres;
mod recovered;
#[cfg(feature = "sqlite")]
mod sqlite;
mod state;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod values;

pub use batch::{CommitBatch, CommitOutcome, MarkOf, Scope, Slot, TokenMark, Write, WriterId};
pub use error::{BackupError, Fatal, HistoryError, StoreUnavailable, TakeError};
#[cfg(feature = "conformance")]
pub use fault::{FaultCount, FaultStore, Faults};
pub use fleet::{
    Fleet, FleetRows, FleetStore, JoinError, NewNode, NodeId, NodeRenewal, NodeRow, SlotRow, Stillness,
};
pub use held_list::{HeldList, HeldWebLock};
pub use history::{
    HISTORY_PAGE, HISTORY_ROWS_LOOKED_AT, HistoryBounds, HistoryEnd, HistoryEntry, HistoryFaults,
    HistoryFilter, HistoryKind, HistoryPage, HistoryQuery, REFUSALS_GATHERED, RefusalRecord,
};
pub use leap::{HighestNumbers, NoNumberLeft, token_floor};
pub use memory::MemoryStore;
#[cfg(feature = "conformance")]
pub use memory::{MemoryBackup, StoredSlot};
pub use port::{BATCH_COST, Store, StoreFuture};
#[cfg(feature = "postgres")]
pub use postgres::{
    IndexesLook, PostgresFleet, PostgresLook, PostgresOpenError, PostgresOptions, PostgresStore, SchemaLook,
    TablesLook,
};
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub use postgres::{PostgresRestoreError, PostgresRestored};
pub use recovered::{Opened, RecoveredRow, SecretKey};
#[cfg(feature = "sqlite")]
pub use sqlite::{
    DatabaseFile, RestoreError, Restored, SqliteLook, SqliteOpenError, SqliteStore, look_at_sqlite, restore,
};
