//! Measures lockhouse beside what users would pick instead, ours and each peer in turn within one run.
//!
//! `lockhouse-bench inproc` compares the library with keyed locks of other crates, `lockhouse-bench server`
//! the server with lock services, `lockhouse-bench durable` what it keeps on the disk with others who keep
//! it. `README.md` tells what each row means and by which rules the comparison is fair.

pub mod cpu;
pub mod durable;
pub mod floor;
pub mod inproc;
pub mod report;
pub mod rounds;
pub mod server;
