//! Owners and claims of the library over the network: the suite that they pass in process, against a real
//! server, and what else can happen there.

mod faults;
mod grounds;
mod proxy;
mod restart;

mod over_the_network {
    crate::suite::behaviours!(crate::offline::grounds::Served, []);
}

mod over_the_network_and_sqlite {
    crate::suite::behaviours!(crate::offline::grounds::ServedFromFile, []);
}
