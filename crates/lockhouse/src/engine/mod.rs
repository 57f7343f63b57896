//! The engine: buckets of one process, the house that they live in, and the way of their changes to the
//! store.

pub(crate) mod absence;
pub(crate) mod bucket;
pub(crate) mod clock;
pub(crate) mod commit;
pub(crate) mod environment;
pub(crate) mod events;
pub(crate) mod house;
pub(crate) mod inbox;
pub(crate) mod key;
pub(crate) mod memory;
pub(crate) mod meters;
pub(crate) mod port;
pub(crate) mod recovery;
pub(crate) mod sync;
pub(crate) mod ticket;
pub(crate) mod waiters;
