//! What a server tells those that watch it: metrics and logs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod access;
mod counts;
#[path = "../exposition/mod.rs"]
mod exposition;
mod logs;
#[path = "../running/mod.rs"]
mod running;
