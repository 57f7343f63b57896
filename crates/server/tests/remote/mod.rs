//! The remote client of the library against the real server.

#![allow(clippy::unwrap_used, reason = "tests")]

mod auth;
#[path = "../../../lockhouse/tests/behaviour/mod.rs"]
mod behaviour;
mod bounds;
mod cancel;
mod endpoints;
mod faults;
mod hostile;
mod numbers;
#[path = "../process/mod.rs"]
mod process;
mod proxy;
mod rates;
mod reclaim;
mod restart;
mod scripted;
mod world;

mod with_a_connection_each {
    crate::behaviour::behaviours!(crate::world::ConnectionEach);
}

mod delivered_late_and_in_batches {
    crate::behaviour::behaviours!(crate::world::Late);
}

mod over_one_connection {
    crate::behaviour::behaviours!(crate::world::OneConnection);
}
