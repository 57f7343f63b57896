//! The tower layer for implicit locks, under axum's router and without a network.

#![allow(clippy::unwrap_used, reason = "tests")]

mod endings;
#[path = "../durability/gate.rs"]
#[allow(dead_code, reason = "the tests of durability use the rest")]
mod gate;
mod office;
mod sessions;
mod steps;
mod strays;
