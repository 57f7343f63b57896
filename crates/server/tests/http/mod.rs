//! The HTTP API over real sockets of real processes.

mod calls;
mod claims;
mod disk;
mod docs;
mod edges;
#[cfg(target_os = "linux")]
mod failing_disk;
mod headers;
mod locks;
mod places;
mod refusals;
mod views;
