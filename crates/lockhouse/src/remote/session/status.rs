//! How a connection is, as its handles see it.

/// How a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Frames go to and fro.
    Open,
    /// The connection broke, and is being made anew. Locks are still held until the lease ends.
    Lost,
    /// Closed for good: by [`Connection::close`](crate::remote::Connection::close), by the end of its
    /// runtime, or as the server takes its key no more.
    Closed,
}
