//! The model of a database that a fleet shares.

mod database;
mod plant;
mod store;
mod tables;

pub(crate) use self::database::{Database, Lane, News, Standby, Traffic};
pub use self::plant::Plant;
pub(crate) use self::store::ModelFleet;
pub(crate) use self::tables::{StatementKind, Tables};
