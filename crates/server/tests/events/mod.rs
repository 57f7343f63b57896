//! What happens in a bucket, as a stream and as history, over real sockets of real processes.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

#[path = "../exposition/mod.rs"]
mod exposition;
mod history;
mod refusals;
#[path = "../running/mod.rs"]
mod running;
mod stream;
mod streams;
