//! One WebSocket: its reads and writes, the identity that opened it, and the registry in which a resume finds
//! its session.

mod admission;
mod connection;
mod registry;
mod write_queue;

pub(crate) use self::admission::{Admission, Denial, Presented};
pub(crate) use self::connection::{Farewell, Incoming, ReadMode, WebSocketConnection};
pub(crate) use self::registry::{Attach, Registration, SessionRegistry};
pub(crate) use self::write_queue::WriteQueue;
