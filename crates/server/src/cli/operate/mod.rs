//! Commands for operators: backups, and fleets.

pub(super) mod backup;
pub(super) mod cluster;
