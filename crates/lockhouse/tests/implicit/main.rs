//! The tower layer for implicit locks, under axum's router and without a network.

#![allow(clippy::unwrap_used, reason = "tests")]

mod endings;
mod office;
mod sessions;
mod steps;
