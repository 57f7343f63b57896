//! What is told when, what is kept how, and what happens when the store does not do as it should.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cancel;
mod commits;
mod ends;
mod gate;
mod notices;
mod recovery;
