//! Holds of every discipline, which an operator breaks.

pub(crate) mod bodies;
pub(crate) mod calls;
pub(crate) mod routes;
