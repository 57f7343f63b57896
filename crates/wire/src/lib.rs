//! The lockhouse protocol, version 1: frames as closed enums, read from and written to the text of a
//! WebSocket message.
//!
//! The contract is `protocol/PROTOCOL.md`; the golden vectors beside it are the tests of this crate. A frame
//! that the contract forbids has no value here: a steal that is shared, a numbered frame without its number,
//! a held lock with a place in the queue.
//!
//! ```
//! use lockhouse_wire::{ClientCall, ClientFrame, Envelope};
//!
//! let text = r#"{"type":"release","seq":3,"id":1,"later":true}"#;
//! let envelope = Envelope::<ClientFrame<'_>>::parse(text).unwrap();
//! let release = ClientFrame::Numbered { seq: 3, call: ClientCall::Release { id: 1, reply: false } };
//! assert_eq!(envelope, Envelope { ack: 0, frame: release });
//! assert_eq!(envelope.to_text(), r#"{"type":"release","seq":3,"id":1}"#);
//! ```

mod client;
mod credential;
pub mod decode;
mod fault;
mod holder;
mod message;
mod percent;
mod read;
mod server;
mod snapshot;
mod ticket;
mod write;

pub use client::{ClientCall, ClientFrame, Hello, Reclaim, Resume, SnapshotQuery, WebLockRequest};
pub use credential::Credential;
pub use decode::{parse_duration, shorten};
pub use fault::{BadClientFrame, BadServerFrame, ErrorCode, FatalCode, FrameProblem};
pub use holder::HolderView;
pub use lockhouse_core::CLIENT_ID_BYTES;
pub use message::{MessageBuilder, MessageCursor, frames_of};
pub use percent::{has_whole_escapes, percent_decode};
pub use read::name_from_json;
pub use server::{EndedReason, LostReason, ServerEvent, ServerFrame, Welcome, WireLimits};
pub use snapshot::{EntryDetail, EntryPlace, EntryView, SnapshotPage, pages};
pub use ticket::Ticket;
pub use write::name_to_json;

/// The WebSocket subprotocol of this version.
pub const SUBPROTOCOL: &str = "lockhouse.v1";

/// The path of the WebSocket endpoint.
pub const PATH: &str = "/v1/ws";

/// The most bytes that a message has, in either direction, and so a frame.
pub const FRAME_BYTES: usize = 65_536;

/// The most frames that a message has, in either direction.
pub const BATCH_FRAMES: usize = 1024;

/// What a frame under way counts for beyond its length, in the window of a client.
pub const FRAME_WEIGHT: usize = 96;

/// The most bytes of the ticket that comes with a grant.
pub const TICKET_BYTES: usize = 128;

/// The most bytes of the credential in `hello`, or in a header.
pub const CREDENTIAL_BYTES: usize = 8192;

/// The most bytes of the label in `hello`.
pub const LABEL_BYTES: usize = 128;

/// The most bytes of the `bucket` and of the `partition` of a connection.
pub const SCOPE_BYTES: usize = 256;

/// After so many numbered frames received, a side that has sent no `ack` meanwhile sends one.
pub const ACK_EVERY: u64 = 64;

/// The first number that is too high: every number on the wire is exact in a double.
pub const NUMBER_LIMIT: u64 = 1 << 53;

/// Close codes of the WebSocket that this protocol gives a meaning.
pub mod close {
    /// The session is over, by the wish of the client.
    pub const NORMAL: u16 = 1000;
    /// The client goes away, such as a page that is closed.
    pub const GOING_AWAY: u16 = 1001;
    /// A binary message came.
    pub const UNSUPPORTED: u16 = 1003;
    /// A frame was over [`FRAME_BYTES`](super::FRAME_BYTES).
    pub const TOO_LARGE: u16 = 1009;
    /// The server stops; the client should reconnect.
    pub const RESTART: u16 = 1012;
    /// The reason of a close with [`RESTART`] where the bucket moves to another server of its fleet.
    pub const MOVING: &str = "moving";
    /// A bound of the server, the tenant or the bucket is reached, which the reason names; the client should
    /// try again later.
    pub const FULL: u16 = 1013;
    /// The framing was broken: `bad_frame` or `bad_seq`.
    pub const BAD_FRAME: u16 = 4400;
    /// No credential that the server takes, or not any more; the session has ended.
    pub const UNAUTHENTICATED: u16 = 4401;
    /// The credential may do nothing in the bucket, or less than before; the session has ended.
    pub const FORBIDDEN: u16 = 4403;
    /// No answer to a ping for the length of the lease; the session has ended.
    pub const LEASE_EXPIRED: u16 = 4408;
    /// Another connection resumed the session.
    pub const REPLACED: u16 = 4409;
    /// The reader did not read; the session has ended.
    pub const SLOW_READER: u16 = 4429;
}

/// A frame together with what any frame may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<F> {
    /// The highest `seq` of the other direction that the sender has processed; 0: none, or nothing new to
    /// say.
    pub ack: u64,
    /// The frame itself.
    pub frame: F,
}

impl<F> Envelope<F> {
    /// The frame without an acknowledgement.
    pub fn new(frame: F) -> Self {
        Self { ack: 0, frame }
    }
}
