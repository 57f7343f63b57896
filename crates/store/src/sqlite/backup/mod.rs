//! Copies of a database: made while it is in use, and put back in its place while it is not.

mod copy;
mod restore;

pub(super) use copy::write;
pub use restore::{RestoreError, Restored, restore};
