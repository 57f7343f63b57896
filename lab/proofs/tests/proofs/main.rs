//! The tests of the proofs. Unit tests would compile the whole package once more, and it is optimized: that
//! takes longer than all of them.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

mod actions;
mod guard;
mod history;
mod scale;
mod schedules;
mod termination;
