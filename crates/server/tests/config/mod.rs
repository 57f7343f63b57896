//! Settings of a server from a file, the environment and the command line.

#![allow(clippy::unwrap_used, reason = "tests")]

mod audit;
#[path = "../certificates/mod.rs"]
mod certificates;
mod check;
mod complete;
mod gone;
#[cfg(target_os = "linux")]
mod hangup;
mod identities;
mod issuers;
mod keys;
mod precedence;
mod reload;
#[path = "../running/mod.rs"]
mod running;
mod start;
