//! TLS over real sockets, with a client that shares no code with ours but rustls.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../certificates/mod.rs"]
mod certificates;
mod clients;
mod handshake;
mod https;
mod identity;
mod pages;
mod rotation;
#[path = "../running/mod.rs"]
mod running;
