//! The way of changes to the store: the outbox of each bucket, and the pipeline that commits for all of them.

pub(crate) mod batch;
pub(crate) mod commit_delay;
pub(crate) mod cost;
pub(crate) mod outbox;
pub(crate) mod pipeline;
pub(crate) mod refusals;
pub(crate) mod slot_lease;
pub(crate) mod steady_clock;
pub(crate) mod store_state;
