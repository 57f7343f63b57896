//! Owners and claims of the library over the network: the suite that they pass in process, against a real
//! server, and what else can happen there.

#![allow(clippy::unwrap_used, reason = "tests")]

mod faults;
mod grounds;
#[path = "../process/mod.rs"]
mod process;
mod proxy;
mod restart;
#[path = "../../../lockhouse/tests/offline/suite/mod.rs"]
mod suite;

mod over_the_network {
    crate::suite::behaviours!(crate::grounds::Served, []);
}

mod over_the_network_and_sqlite {
    crate::suite::behaviours!(crate::grounds::ServedFromFile, []);
}
