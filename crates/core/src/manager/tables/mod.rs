//! The data structures of a lock manager's state: the table of names and their entries, and the structures
//! below it.

pub(super) mod arena;
pub(super) mod deadlines;
mod feed;
pub(super) mod held;
pub(super) mod list;
pub(super) mod seeds;
pub(super) mod table;
mod tally;
pub(super) mod void;
pub(super) mod weights;
