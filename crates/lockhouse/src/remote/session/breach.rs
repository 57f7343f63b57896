//! Breaches of the protocol.

/// What a server must not do.
#[derive(Debug)]
pub(crate) struct ProtocolViolation(pub(in crate::remote) String);
