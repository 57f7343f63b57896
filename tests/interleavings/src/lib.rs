//! The library under [shuttle](https://docs.rs/shuttle), a scheduler that chooses at each mutex and each
//! atomic which thread goes on: of two threads that meet once in a million runs it makes them meet.
//!
//! `cargo xtask test --only interleavings` builds it with `--cfg shuttle` into a target folder of its own;
//! everywhere else it is empty.
//!
//! A test that fails prints its schedule. These variables repeat it, or look further:
//!
//! | variable | |
//! |---|---|
//! | `INTERLEAVINGS_SCHEDULE` | runs each test once, with that schedule |
//! | `INTERLEAVINGS_ITERATIONS` | so many schedules of each test with each scheduler |

#![cfg(all(shuttle, test))]

mod buckets;
mod calls;
mod check;
mod durable;
mod ends;
mod reads;
