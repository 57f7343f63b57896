//! Copies of a database: made while it is in use, and put back in its place while it is not.

mod copy;
mod restore;

pub(super) use copy::write;
#[cfg(test)]
pub(super) use restore::restore_at;
pub use restore::{RestoreError, Restored, restore};
