//! Commands for operators: backups, buckets, fleets, holds that are broken, and the history.

pub(super) mod backup;
pub(super) mod break_holds;
pub(super) mod buckets;
pub(super) mod cluster;
pub(super) mod events;
pub(super) mod history;
