//! The clients of a schedule: owner clients with business transactions, claim clients, workers in the
//! server's process, and remote web clients.

pub(super) mod claim_client;
pub(super) mod owner_client;
mod session;
pub(super) mod web_client;
pub(super) mod worker;
