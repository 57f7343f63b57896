//! The project's folder and the programs that the commands start in it.

pub mod cargo;
pub mod origin;
pub(crate) mod scratch;
pub mod setup;
pub mod shell;
pub mod tree;
