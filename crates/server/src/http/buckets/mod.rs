//! The buckets of a tenant, of all nodes of the fleet.

pub(crate) mod fleet;
pub(crate) mod routes;
