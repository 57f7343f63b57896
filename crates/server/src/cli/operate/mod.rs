//! Commands for operators: backups, fleets, holds that are broken, and the history.

pub(super) mod backup;
pub(super) mod break_holds;
pub(super) mod cluster;
pub(super) mod history;
