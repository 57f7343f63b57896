//! The laboratory as a program, which `cargo xtask` starts; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::run()
}
