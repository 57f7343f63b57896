//! When notices leave, how state becomes durable, and how the house takes faults of the store.

mod bounds;
mod cancel;
mod commits;
mod ends;
mod events;
pub(crate) mod gate;
mod notices;
mod order;
mod recovery;
mod sweep;
mod tokens;
