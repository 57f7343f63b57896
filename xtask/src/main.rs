//! `cargo xtask`; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::run()
}
