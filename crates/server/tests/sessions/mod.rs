//! The server over real sockets, driven by a WebSocket client that knows nothing of the project's own client.

mod access;
mod auth;
mod batches;
mod callers;
mod ends;
mod frames;
#[path = "../../../lockhouse/tests/durability/gate.rs"]
#[allow(dead_code, reason = "the tests of durability use the rest")]
mod gate;
mod kept;
mod leases;
mod life;
mod limits;
mod load;
mod memory;
mod order;
mod outage;
mod paced;
mod process;
mod resume;
mod secrets;
mod sites;
mod slow;
mod support;
mod vectors;
