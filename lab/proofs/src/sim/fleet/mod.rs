//! `cargo xtask sim --fleet`: several nodes over one database that fails over, with clients that rely on
//! their leases.
//!
//! ```text
//!   client ─ wire ─▶ session, socket ─▶ house, pipeline ─▶ Committer ─┐
//!   client ─ wire ─▶      │             (the real ones)               ├─▶ Database ─▶ standby
//!   caller ─────────▶     └─ SlotLease, FleetNode, Membership ────────┘    a model
//!      │
//!      └─▶ Judge: beliefs, tokens, the fence, what was acknowledged
//! ```
//!
//! Each process has a runtime and a clock of its own, which goes wrong by at most 2.5 % in nine schedules of
//! ten. In the others, and while two servers acknowledge what they are asked, only the fence is judged.
//! All that happens in a step of simulated time happens at its end: first the database, then the nodes, then
//! the clients.

mod caller;
mod client;
mod faults;
mod judge;
pub(crate) mod model;
pub(crate) mod node_process;
mod partial;
mod process;
mod session;
mod wire;
mod world;

pub use self::model::Plant;
pub(super) use self::world::{LEAST_COMMANDS, LEAST_FAULTS, play};

/// The classes of events that have to occur in a run.
pub(super) const EXPECTED: &[&str] = &[
    "a calm pause moved no slot",
    "assigned",
    "claimed",
    "client stands still",
    "commands",
    "connection breaks off",
    "database goes away",
    "database: answers lost",
    "database: statements held",
    "failover to a synchronous standby",
    "failover to an asynchronous standby",
    "faults",
    "fence: accepted",
    "fence: refused",
    "generations",
    "granted",
    "locked by an owner",
    "node is cut off",
    "node is cut off but for commits",
    "node is cut off while it gives back",
    "node is deleted by hand",
    "node leaves",
    "nodes declared dead",
    "noise of one slot",
    "noise was cut into commits",
    "page is damaged",
    "pause below the slot lease",
    "process is killed",
    "process stands still",
    "reclaimed",
    "reclaims",
    "resumed",
    "sessions past their deadline",
    "slot is given back",
    "slots that are damaged",
    "standby goes away",
    "tables are locked",
    "two servers",
];
