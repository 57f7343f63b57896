//! The box office over HTTP.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod booking;
mod live;
mod process;
mod security;
mod stale;
mod theatre;
