//! The library under [shuttle](https://docs.rs/shuttle), a scheduler that chooses at each mutex and each
//! atomic which thread goes on: of two threads that meet once in a million runs it makes them meet.
//!
//! `cargo xtask test --only interleavings` runs it.
//!
//! A test that fails prints its schedule. These variables repeat it, or look further:
//!
//! | variable | |
//! |---|---|
//! | `INTERLEAVINGS_SCHEDULE` | runs each test once, with that schedule |
//! | `INTERLEAVINGS_ITERATIONS` | the number of schedules of each test with each scheduler |

extern crate lockhouse_scheduled as lockhouse;

mod buckets;
mod calls;
mod check;
mod durable;
mod ends;
mod reads;
