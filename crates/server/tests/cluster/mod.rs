//! Several servers over one PostgreSQL: any of them serves any client, and the others go on when one dies.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bad_input;
#[path = "../certificates/mod.rs"]
mod certificates;
mod events;
#[path = "../exposition/mod.rs"]
mod exposition;
mod fleet;
mod metrics;
mod moves;
#[path = "../../../../tests/support/postgres.rs"]
mod postgres;
mod relay;
#[path = "../running/mod.rs"]
mod running;
mod stale;
#[path = "../events/stream.rs"]
mod stream;
mod tls;
mod views;
