//! The tower layer for implicit locks, under axum's router and without a network.

mod endings;
mod office;
mod sessions;
mod steps;
mod strays;
