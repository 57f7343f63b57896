//! Several servers over one PostgreSQL: any of them serves any client, and the others go on when one dies.

mod bad_input;
mod database;
mod events;
mod fleet;
mod metrics;
mod moves;
mod noise;
mod pauses;
mod relay;
mod stale;
mod tls;
mod views;
