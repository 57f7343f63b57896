//! The program `lockhouse`: a server, and all commands. Commands that are clients of a server are those of
//! [`lockhouse_cli`].

mod backup;
mod cluster;
mod command_line;
mod completions;
mod config;
mod doctor;
mod key;
mod options;
mod postgres;
mod serve;
mod token;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A request is dozens of small allocations, more than a tenth of its time with the allocator of the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    command_line::main()
}
