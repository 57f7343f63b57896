//! The model of a database that a fleet shares.

mod database;
mod plant;
mod store;
mod tables;

pub(super) use self::database::{Database, Lane, News, Standby};
pub(crate) use self::plant::Plant;
pub(super) use self::store::ModelFleet;
pub(super) use self::tables::Tables;
