//! Offline locks and claims behave the same wherever their state is: in memory alone, over the memory store,
//! over SQLite, and over a store that loses answers and stalls. The tests of the server have the same over
//! the network.

mod grounds;
mod prices;

mod in_memory {
    crate::suite::behaviours!(super::grounds::Alone, [start_paused = true]);
}

mod over_memory {
    crate::suite::behaviours!(super::grounds::OverMemory, [start_paused = true]);
}

// The thread of this store knows nothing of a time that is paused.
mod over_sqlite {
    crate::suite::behaviours!(super::grounds::OverSqlite, []);
}

mod over_faults {
    crate::suite::behaviours!(super::grounds::OverFaults, [start_paused = true]);
}
