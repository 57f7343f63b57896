//! Commands for operators: buckets, fleets, holds that are broken, and the history.

pub(crate) mod break_holds;
pub(crate) mod buckets;
pub mod cluster;
pub(crate) mod events;
pub(crate) mod history;
