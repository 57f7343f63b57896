//! Copies of a database: made while it is in use, and put back in its place while it is not.

mod copy;
mod restore;

pub(super) use copy::write;
#[cfg(feature = "postgres")]
pub(crate) use restore::private_copy;
#[cfg(test)]
pub(super) use restore::restore_at;
pub use restore::{RestoreError, Restored, restore};
