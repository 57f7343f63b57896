//! Offline locks.

pub(crate) mod bodies;
pub(crate) mod calls;
pub(crate) mod routes;
