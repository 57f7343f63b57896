//! What dashboards ask for again and again: a bucket in a few figures, and who waits for whom.

pub(crate) mod figures;
pub(crate) mod graph;
pub(crate) mod overview;
pub(crate) mod recent;
pub(crate) mod waits;
