//! The tests of the manager, as one program: each program is linked anew. Those that count memory are
//! another, as they have an allocator of their own.

#![allow(clippy::unwrap_used, reason = "tests")]

mod accounting;
mod cost;
mod determinism;
mod expiry;
mod invariants;
mod parts;
mod player;
mod scripts;
mod story;
mod views;
