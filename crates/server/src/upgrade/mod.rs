//! From a request to a session: the WebSocket handshake, and the `hello` behind it.

mod forward;
mod handshake;
mod hello;
mod refuse;

pub(crate) use self::handshake::upgrade;
pub(crate) use self::refuse::refuse;
