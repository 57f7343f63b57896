//! One WebSocket: reading and writing at once, and parting with last words.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Sink, SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use lockhouse::fleet::SlotLease;
use lockhouse_wire::{
    ClientFrame, Envelope, FRAME_BYTES, FRAME_WEIGHT, FatalCode, FrameProblem, MessageCursor, ServerFrame,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Sleep, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::arrivals::{Arrival, ArrivalOrder};
use super::recorded::RecordedIo;
use super::silence::Silence;
use super::write_queue::WriteQueue;
use crate::bounds::{FAREWELL_TIMEOUT, HELD_BACK_BYTES, OUTBOX_HIGH_WATER_BYTES, WRITE_GRACE};
use crate::limits::{ConnectionPermit, Network, TenantPermit};

/// An open WebSocket.
#[derive(Debug)]
pub(crate) struct WebSocketConnection {
    socket: WebSocketStream<RecordedIo>,
    arrival: Arrival,
    unflushed: bool,
    /// Whether frames may be handed to the socket, if the session is one of a fleet.
    silence: Option<Silence>,
    /// Input that was read before its turn, or while too much waited to be written, other than pongs, acks
    /// and ends; and the rest of an array of frames.
    held_back: VecDeque<HeldBack>,
    held_back_bytes: usize,
    /// Runs while there is something to write and the peer takes nothing, or nothing can be written any more.
    stalled: Option<Pin<Box<Sleep>>>,
    /// The longest time that this may last.
    write_timeout: Duration,
    /// Present if the server accepts connections itself.
    permit: Option<ConnectionPermit>,
    /// Present once the tenant of the connection is known.
    tenant_permit: Option<TenantPermit>,
}

/// A connection that is no WebSocket any more.
#[derive(Debug)]
pub(crate) struct RawConnection {
    pub(crate) io: TokioIo<Upgraded>,
    /// All that has been read of it.
    pub(crate) read: Vec<u8>,
    /// Its places among the connections, kept as long as it.
    pub(crate) places: (Option<ConnectionPermit>, Option<TenantPermit>),
}

/// The messages that are read of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// All messages.
    All,
    /// Input that must not wait: pongs, acks and ends.
    Urgent,
    Nothing,
}

/// Input from a connection.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A frame.
    Frame(IncomingFrame),
    /// A message of the wrong kind.
    Binary,
    /// A ping or pong of the WebSocket itself, which the library answers, and which proves nothing but costs
    /// as a frame does.
    Control,
    /// A message over [`FRAME_BYTES`].
    TooLarge,
    /// Bytes that are no WebSocket message at all.
    Malformed(String),
    /// The peer closes, with that code.
    Closed(Option<u16>),
    /// The connection broke off, or the peer took nothing for too long.
    Lost,
}

/// The text of a frame.
#[derive(Debug)]
pub(crate) struct IncomingFrame {
    pub(crate) text: Utf8Bytes,
    /// Its place in the array that it came in, from 0.
    pub(crate) index: Option<usize>,
    /// How much of its message it is, with the space around it.
    pub(crate) bytes: usize,
}

/// Input that is not carried out yet.
#[derive(Debug)]
enum HeldBack {
    Incoming(Incoming),
    /// A message of text, and how far it has been split into frames.
    Message(Utf8Bytes, MessageCursor),
}

/// The server's close of a connection.
#[derive(Debug)]
pub(crate) struct Farewell {
    /// The frames that are still to be written.
    queue: WriteQueue,
    code: u16,
    reason: &'static str,
    /// Whether the peer may still be in the middle of a message that we do not read.
    unread: bool,
}

impl Farewell {
    /// Closes with a code and a reason.
    pub(crate) fn new(queue: WriteQueue, code: u16, reason: &'static str) -> Self {
        Self { queue, code, reason, unread: false }
    }

    /// Sends the error, and closes with the code that belongs to it.
    pub(crate) fn fatal(mut queue: WriteQueue, code: FatalCode, problem: FrameProblem<'_>) -> Self {
        queue.push(Envelope::new(ServerFrame::Fatal { code, problem }).to_text().into());
        Self { queue, code: code.close_code(), reason: code.word(), unread: code == FatalCode::TooLarge }
    }
}

/// What is held back counts no more than what the client counts for it.
const _: () = assert!(size_of::<HeldBack>() <= FRAME_WEIGHT);

/// How much is read at once. The library fills so much with zeros before each read.
const READ_BYTES: usize = 4 << 10;

impl WebSocketConnection {
    /// A new one. What is read of it is recorded until it [enters](Self::enter) a session, if it may have to
    /// be [handed on](Self::into_parts).
    pub(crate) async fn new(
        io: TokioIo<Upgraded>,
        is_recorded: bool,
        permit: Option<ConnectionPermit>,
        write_timeout: Duration,
    ) -> Self {
        let io = RecordedIo::new(io, is_recorded);
        let config = WebSocketConfig::default()
            .max_message_size(Some(FRAME_BYTES))
            .max_frame_size(Some(FRAME_BYTES))
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(32 << 10);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        Self {
            socket,
            arrival: Arrival::default(),
            unflushed: false,
            silence: None,
            held_back: VecDeque::new(),
            held_back_bytes: 0,
            stalled: None,
            write_timeout: write_timeout + WRITE_GRACE,
            permit,
            tenant_permit: None,
        }
    }

    /// The network that the connection comes from, if known.
    pub(crate) fn from(&self) -> Option<Network> {
        self.permit.as_ref().map(|permit| permit.from)
    }

    /// Takes the permit of the connection's tenant, which is known now.
    pub(crate) fn take_permit(&mut self, permit: TenantPermit) {
        self.tenant_permit = Some(permit);
    }

    /// From now on the input of the connection is read in the order of its bucket, and frames are written
    /// while the node of the bucket may speak.
    pub(crate) fn enter(&mut self, order: &ArrivalOrder, lease: Option<&Arc<SlotLease>>) {
        self.arrival.enter(order);
        self.silence = lease.cloned().map(Silence::new);
        self.socket.get_mut().stop();
    }

    /// The connection below, to be handed on.
    pub(crate) fn into_parts(self) -> RawConnection {
        let (io, read) = self.socket.into_inner().into_parts();
        RawConnection { io, read, places: (self.permit, self.tenant_permit) }
    }

    /// The bytes that were read and are not carried out yet.
    pub(crate) fn held_back_bytes(&self) -> usize {
        self.held_back_bytes
    }

    /// All that was read is carried out: the connection whose input came next has its turn.
    pub(crate) fn pass(&self) {
        self.arrival.pass();
    }

    /// Writes the frames of the queue, and waits for input that is read at present.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: frames taken from the queue are in the connection's buffer.
    pub(crate) async fn next(&mut self, queue: &mut WriteQueue, reading: ReadMode) -> Incoming {
        poll_fn(|context| {
            match self.poll_write(context, queue) {
                Poll::Ready(Err(_)) => {
                    self.arrival.end();
                    self.poll_end(context)
                }
                // A client that takes nothing cannot make us keep ever more answers for it.
                _ if reading == ReadMode::Nothing => {
                    self.arrival.pass();
                    Poll::Pending
                }
                _ if reading == ReadMode::Urgent || queue.bytes() > OUTBOX_HIGH_WATER_BYTES => {
                    self.arrival.pass();
                    self.poll_urgent(context)
                }
                _ => self.poll_in_turn(context),
            }
        })
        .await
    }

    /// A message that has come already, and whose turn is now.
    pub(crate) async fn next_ready(&mut self) -> Option<Incoming> {
        poll_fn(|context| match self.poll_in_turn(context) {
            Poll::Ready(incoming) => Poll::Ready(Some(incoming)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Says the last words, closes, and waits a little for the peer to do the same.
    pub(crate) async fn part(mut self, farewell: Farewell) {
        self.arrival.end();
        // Whether the peer takes the last words or not, the connection is gone after that time.
        _ = timeout(FAREWELL_TIMEOUT, self.say(farewell)).await;
    }

    /// The peer has closed: answers that.
    pub(crate) async fn answer_close(mut self) {
        self.arrival.end();
        _ = timeout(FAREWELL_TIMEOUT, async {
            while self.socket.next().await.is_some_and(|next| next.is_ok()) {}
        })
        .await;
    }

    async fn say(&mut self, mut farewell: Farewell) -> Result<(), Error> {
        while let Some(text) = farewell.queue.pop() {
            // What a mute node may not say it never says: the client finds out at the next node.
            if self.silence.as_ref().is_some_and(Silence::holds) {
                break;
            }
            self.socket.feed(Message::Text(text)).await?;
        }
        let close = CloseFrame { code: CloseCode::from(farewell.code), reason: farewell.reason.into() };
        self.socket.send(Message::Close(Some(close))).await?;
        if farewell.unread {
            self.discard().await?;
        } else {
            while self.socket.next().await.is_some_and(|next| next.is_ok()) {}
        }
        Ok(())
    }

    /// Closing a TCP connection with unread data resets it, which may destroy what the peer has not read yet.
    async fn discard(&mut self) -> Result<(), Error> {
        let raw = self.socket.get_mut();
        raw.shutdown().await?;
        let mut scrap = vec![0; 16 << 10];
        while raw.read(&mut scrap).await? != 0 {}
        Ok(())
    }

    fn poll_write(&mut self, context: &mut Context<'_>, queue: &mut WriteQueue) -> Poll<Result<(), Error>> {
        loop {
            match self.poll_write_once(context, queue) {
                Poll::Ready(Ok(true)) => self.stalled = None,
                Poll::Ready(Ok(false)) => {
                    self.stalled = None;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if self.silence.as_ref().is_some_and(Silence::holds) => {
                    self.stalled = None;
                    return Poll::Pending;
                }
                Poll::Pending => {
                    let too_long = Error::Io(io::ErrorKind::TimedOut.into());
                    return self.poll_stalled(context).map(|()| Err(too_long));
                }
            }
        }
    }

    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let limit = self.write_timeout;
        self.stalled.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(context)
    }

    /// One message into the buffer, or the buffer into the network; false if there is nothing left to do.
    fn poll_write_once(
        &mut self,
        context: &mut Context<'_>,
        queue: &mut WriteQueue,
    ) -> Poll<Result<bool, Error>> {
        let mut socket = Pin::new(&mut self.socket);
        if !queue.is_empty() {
            ready!(Sink::poll_ready(socket.as_mut(), context))?;
            if let Some(silence) = &mut self.silence {
                ready!(silence.poll_over(context));
            }
            if let Some(text) = queue.pop() {
                socket.start_send(Message::Text(text))?;
                self.unflushed = true;
            }
            return Poll::Ready(Ok(true));
        }
        if self.unflushed {
            ready!(Sink::poll_flush(socket, context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(false))
    }

    /// Looks ahead for a pong, which takes no answer, as the lease does not wait until the client has read
    /// all others; for an ack, which frees memory; and for an end, which leaves no client to answer.
    ///
    /// In an array of frames they wait for their turn. All that a client has under way is less than what is
    /// read ahead, if it keeps to its window.
    fn poll_urgent(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        while self.held_back_bytes < HELD_BACK_BYTES {
            let read = ready!(self.poll_read(context));
            if read.is_urgent() {
                return Poll::Ready(read.split().0);
            }
            self.held_back_bytes += read.bytes();
            self.held_back.push_back(read.alone());
        }
        Poll::Pending
    }

    /// Nothing is written any more, and input is not answered. The client may have sent a `bye` before.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        loop {
            match self.poll_held_back_or_read(context) {
                Poll::Ready(incoming) if incoming.is_end() => return Poll::Ready(incoming),
                Poll::Ready(_) => {}
                // Reading soon finds a broken connection, too. The wait for that is bounded.
                Poll::Pending => return self.poll_stalled(context).map(|()| Incoming::Lost),
            }
        }
    }

    /// A message, once all that arrived before it at other connections of the bucket is carried out.
    fn poll_in_turn(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        let incoming = ready!(self.poll_held_back_or_read(context));
        if self.arrival.poll_turn(context).is_ready() {
            return Poll::Ready(incoming);
        }
        self.hold_back_first(HeldBack::Incoming(incoming));
        Poll::Pending
    }

    fn poll_held_back_or_read(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        let next = match self.held_back.pop_front() {
            Some(held_back) => {
                self.held_back_bytes -= held_back.bytes();
                held_back
            }
            None => ready!(self.poll_read(context)),
        };
        let (incoming, rest) = next.split();
        if let Some(rest) = rest {
            self.hold_back_first(rest);
        }
        Poll::Ready(incoming)
    }

    fn hold_back_first(&mut self, held_back: HeldBack) {
        self.held_back_bytes += held_back.bytes();
        self.held_back.push_front(held_back);
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<HeldBack> {
        let Self { socket, arrival, .. } = self;
        let incoming = match ready!(arrival.poll_read(context, |context| socket.poll_next_unpin(context))) {
            Some(Ok(Message::Text(text))) => {
                return Poll::Ready(HeldBack::Message(text, MessageCursor::default()));
            }
            Some(Ok(Message::Binary(_))) => Incoming::Binary,
            Some(Ok(Message::Close(frame))) => Incoming::Closed(frame.map(|frame| frame.code.into())),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Incoming::Control,
            Some(Err(error)) => Incoming::from(error),
            None => Incoming::Lost,
        };
        Poll::Ready(HeldBack::Incoming(incoming))
    }
}

impl HeldBack {
    /// The next frame or other input, and the rest of the array behind it.
    fn split(self) -> (Incoming, Option<Self>) {
        let (text, mut cursor) = match self {
            Self::Incoming(incoming) => return (incoming, None),
            Self::Message(text, cursor) => (text, cursor),
        };
        let left = cursor.left(&text);
        let range = match cursor.next(&text) {
            Ok(range) => range,
            Err(problem) => return (Incoming::Malformed(problem.message.into_owned()), None),
        };
        let index = cursor.index();
        if index.is_none() {
            let bytes = text.len();
            return (Incoming::Frame(IncomingFrame { text, index, bytes }), None);
        }
        // A copy: a part would keep the whole message in memory.
        let frame = Utf8Bytes::from(&text[range]);
        let bytes = left - cursor.left(&text);
        let rest = (!cursor.is_over()).then_some(Self::Message(text, cursor));
        (Incoming::Frame(IncomingFrame { text: frame, index, bytes }), rest)
    }

    /// A copy that takes no more memory than it counts for: a text may be a part of a larger buffer.
    fn alone(self) -> Self {
        match self {
            Self::Message(text, cursor) => Self::Message(text.as_str().to_owned().into(), cursor),
            incoming => incoming,
        }
    }

    /// Whether it overtakes what is held back. Frames in arrays do not, nor does an array that breaks a rule.
    fn is_urgent(&self) -> bool {
        match self {
            Self::Message(text, _) => {
                matches!(frame(text), Some(ClientFrame::Pong { .. } | ClientFrame::Ack | ClientFrame::Bye))
            }
            Self::Incoming(_) => true,
        }
    }

    /// The bytes that count while it is held back: all of a message, as long as a part of it is; a short
    /// frame has its costs, too.
    fn bytes(&self) -> usize {
        FRAME_WEIGHT
            + match self {
                Self::Incoming(Incoming::Frame(frame)) => frame.text.len(),
                Self::Incoming(_) => 0,
                Self::Message(text, _) => text.len(),
            }
    }
}

impl Incoming {
    /// Whether nothing of use comes behind the input.
    fn is_end(&self) -> bool {
        match self {
            Self::Frame(IncomingFrame { text, .. }) => matches!(frame(text), Some(ClientFrame::Bye)),
            Self::Control | Self::Malformed(_) => false,
            _ => true,
        }
    }

    /// The number of frames that the input counts for in the rates: one for each KiB begun.
    pub(crate) fn cost(&self) -> u32 {
        match self {
            Self::Frame(IncomingFrame { bytes, .. }) => 1 + (bytes >> 10) as u32,
            _ => 1,
        }
    }
}

impl From<Error> for Incoming {
    fn from(error: Error) -> Self {
        match error {
            Error::Capacity(CapacityError::MessageTooLong { .. }) => Self::TooLarge,
            Error::Utf8(_) | Error::Protocol(_) => {
                use tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
                if matches!(error, Error::Protocol(ResetWithoutClosingHandshake)) {
                    return Self::Lost;
                }
                Self::Malformed(error.to_string())
            }
            _ => Self::Lost,
        }
    }
}

fn frame(text: &str) -> Option<ClientFrame<'_>> {
    Envelope::<ClientFrame<'_>>::parse(text).ok().map(|envelope| envelope.frame)
}
