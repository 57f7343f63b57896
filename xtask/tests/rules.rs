//! The rules of the project, as one program: each program is linked anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod built_once;
mod mutants;
mod style;
