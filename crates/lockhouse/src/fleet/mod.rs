//! A fleet: several processes over one store, which share its slots out among themselves. Each serves the
//! buckets of its slots, and knows whose the others are.
//!
//! ```text
//!   FleetNode ─ life ─┬─ Committer        one commit under way; each one renews
//!     │          ├─ polls            ─▶ Membership ─▶ bury, take, ask for
//!     │          └─ SlotLease        whether the node may speak
//!     └─ SlotTable ─▶ House …        one for each slot that the node serves
//! ```
//!
//! Every node has a counter in the store, which grows with all that it writes. A node whose counter stands
//! still for its slot lease is declared dead by another one, in one write; its slots are free then. The
//! former owner has fallen silent before that: it may speak for nine tenths of its slot lease after the
//! sending of the last commit that was confirmed ([`SlotLease`]). Those that speak for it, such as the
//! sessions of a server, ask the slot lease before each message. A guard of a web lock that an agent of this
//! very process holds does not: it shows its loss only once the store answers. A program that has such agents
//! in a fleet asks [`SlotLease::is_mute`] itself, or has the guarded resource check fencing tokens.
//!
//! A slot is given to the node that rendezvous hashing names. Free slots are taken, others are asked for: the
//! owner closes the house of the slot, and leaves a list of the web locks that are held there, so that only
//! these wait for their holders.

mod commit_costs;
mod committer;
mod life;
mod membership;
mod node;
mod options;
mod slots;
mod turns;

pub use self::membership::owner_of;
pub use self::node::{
    BucketPlace, FleetNode, FleetView, NodeError, NodeEvent, NodePhase, NotReleased, Peers, SlotView,
};
pub use self::options::{NodeOptions, Timing};
pub use crate::engine::commit::slot_lease::SlotLease;
