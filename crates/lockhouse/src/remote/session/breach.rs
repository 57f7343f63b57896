//! Breaches of the protocol.

/// A breach of the protocol by the server.
#[derive(Debug)]
pub(crate) struct ProtocolViolation(pub(in crate::remote) String);
