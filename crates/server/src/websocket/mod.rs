//! One WebSocket: its reads, in the order of arrival, and its writes, the identity that opened it, and the
//! registry in which a resume finds its session.

mod admission;
mod arrivals;
mod connection;
mod recorded;
mod registry;
mod session_view;
mod silence;
mod turns;
mod write_queue;

pub(crate) use self::admission::{Admission, Denial, Presented};
pub(crate) use self::connection::{
    Farewell, Incoming, IncomingFrame, RawConnection, ReadMode, WebSocketConnection,
};
pub(crate) use self::registry::{Attach, Registration, SessionRegistry};
pub(crate) use self::session_view::{Peer, SessionView};
pub(crate) use self::turns::Turns;
pub(crate) use self::write_queue::WriteQueue;
