//! Measures lockhouse beside the programs that users would pick instead, ours and each peer in turn within
//! one run.
//!
//! `lockhouse-bench inproc` compares the library with keyed locks of other crates, `lockhouse-bench server`
//! the server with lock services, `lockhouse-bench durable` its durable state with that of others,
//! `lockhouse-bench cluster` a fleet over PostgreSQL with a lock table in the same PostgreSQL. `README.md`
//! explains the rows and the rules of a fair comparison.

pub mod cluster;
pub mod cpu;
pub mod durable;
pub mod floor;
pub mod inproc;
mod plot;
pub mod publish;
pub mod report;
pub mod rounds;
pub mod server;
