//! The sessions of Web Locks, for operators.

pub(crate) mod routes;
