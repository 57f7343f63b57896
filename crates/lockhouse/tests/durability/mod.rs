//! When notices leave, how state becomes durable, and how the house takes faults of the store.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod cancel;
mod commits;
mod ends;
mod events;
mod gate;
mod notices;
mod order;
mod recovery;
mod sweep;
mod tokens;
