//! The functions that the fuzzer calls: one for each target, which takes any bytes and panics if they break a
//! promise.
//!
//! ```text
//!   fuzz/fuzz_targets/NAME.rs ──▶ NAME(bytes) ◀── tests/corpus.rs: fuzz/corpus/NAME/*,
//!                                                 in every run of the tests
//! ```
//!
//! The inputs that are worth keeping lie in `fuzz/corpus`, a folder for each target. The fuzzer itself
//! (`cargo xtask fuzz`) needs cargo-fuzz, and is a workspace of its own; replaying what it found needs
//! nothing.

mod budget;
mod commands;
mod database;
mod frames;
mod http;
mod json;
mod names;
mod session;
mod settings;
mod store;
mod token;

pub use commands::commands;
pub use database::database;
pub use frames::{client_frame, server_frame};
pub use http::http;
pub use names::names;
pub use session::session;
pub use settings::settings;
pub use store::store;
pub use token::token;

/// Calls the macro `$with` with the names of all targets.
#[macro_export]
macro_rules! for_each_target {
    ($with:ident) => {
        $with! { client_frame server_frame names session http store database commands settings token }
    };
}

/// A broken promise is reported by a panic, which both the fuzzer and a test take for a failure.
macro_rules! promise {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            panic!($($message)+);
        }
    };
}
pub(crate) use promise;
