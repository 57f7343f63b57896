//! A session with a server: its requests, locks and frames, under one mutex, and the task that does all that
//! waits.

mod agents;
pub(crate) mod backoff;
pub(crate) mod breach;
pub(crate) mod lease;
pub(crate) mod looks;
pub(crate) mod outbox;
pub(crate) mod reclaim;
pub(crate) mod requests;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod task;
