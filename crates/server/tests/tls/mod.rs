//! TLS over real sockets, with a client that shares no code with ours but rustls.

mod clients;
mod handshake;
mod https;
mod identity;
mod pages;
mod rotation;
