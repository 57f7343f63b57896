//! `cluster`: the fleet that the server is a node of, for operators, and what nodes ask of each other.

mod peers;
mod routes;
mod view;

pub(crate) use self::peers::routes as peer_routes;
pub(super) use self::routes::{drain, show};
