//! The history: who held what, from when to when, and why it ended.

pub(crate) mod bodies;
pub(crate) mod calls;
pub(crate) mod routes;
pub(crate) mod turns;
