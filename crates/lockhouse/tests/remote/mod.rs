//! The remote client of the library against the real server.

mod bounds;
mod cancel;
mod endpoints;
mod faults;
mod foreign;
mod hostile;
mod numbers;
mod proxy;
mod reclaim;
mod restart;
mod scripted;
mod world;

mod with_a_connection_each {
    crate::behaviour::behaviours!(crate::remote::world::ConnectionEach);
}

mod delivered_late_and_in_batches {
    crate::behaviour::behaviours!(crate::remote::world::Late);
}

mod over_one_connection {
    crate::behaviour::behaviours!(crate::remote::world::OneConnection);
}
