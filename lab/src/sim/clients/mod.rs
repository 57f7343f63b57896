//! The clients of a schedule: clerks with business transactions, buyers with claims, workers in the server's
//! process, and remote tabs.

pub(super) mod buyer;
pub(super) mod clerk;
mod session;
pub(super) mod tab;
pub(super) mod worker;
