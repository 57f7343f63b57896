//! Settings of a server from a file, the environment and the command line.

mod audit;
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
mod start;
