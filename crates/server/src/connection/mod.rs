//! One connection, from its handshake to its end.

mod request_timing;
mod serve;
mod timeout_stream;

pub(crate) use self::serve::{refuse, serve};
