//! Queries over all that is held, pending, claimed and assigned.

pub(crate) mod calls;
pub(crate) mod entry;
pub(crate) mod filter;
pub(crate) mod page;
pub(crate) mod routes;
pub(crate) mod snapshot;
