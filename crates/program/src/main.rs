//! The command line of lockhouse.

mod cli;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A request is dozens of small allocations, more than a tenth of its time with the allocator of the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
