//! One WebSocket: what is read and written, in whose name it came, and where a resume finds its session.

mod admission;
mod connection;
mod outbox;
mod registry;

pub(crate) use self::admission::{Admission, Denial, Presented};
pub(crate) use self::connection::{Connection, Farewell, Incoming, Reading};
pub(crate) use self::outbox::Outbox;
pub(crate) use self::registry::{Attach, Registration, Registry};
