//! The proofs that compute: they play the library, the core and the judge of histories in their own process,
//! with virtual time. What they do is limited by the processor, so this package is optimized, and the other
//! proofs, which start programs and wait for them, are not.
#![allow(clippy::print_stdout, reason = "these commands talk to a terminal")]
#![allow(missing_debug_implementations, reason = "nobody outside of the laboratory sees these types")]
#![allow(missing_docs, reason = "the laboratory is the only user; docs/histories.md describes the records")]

pub mod evidence;
pub mod guard;
pub mod history;
pub mod model;
pub mod oracle;
mod panics;
pub mod scale;
pub mod sim;

use xtask::Verdict;
