//! What the server tells a client, heard the moment it is written: the disk must have it by then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockhouse::FencingToken;
use lockhouse_wire::{Envelope, ServerEvent, ServerFrame, frames_of};

use crate::sim::ledger::Ledger;
use crate::sim::server::{Place, ServerHandle};

/// Hears all bytes that the server writes to one connection.
#[derive(Debug)]
pub(super) struct Listener {
    server: ServerHandle,
    place: Place,
    announced: Arc<Announced>,
    /// The bytes of which more must come.
    bytes: Vec<u8>,
    state: State,
}

/// What a session was told, over all of its connections.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// The highest number of a frame that was written to the client.
    seq: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The head of the answer to the handshake is not over yet.
    Head,
    Frames,
    /// The client receives nothing of it any more.
    Stopped,
}

impl Announced {
    /// The highest number of a frame that was written to the client.
    pub(super) fn seq(&self) -> u64 {
        self.seq.load(Ordering::Relaxed)
    }
}

impl Listener {
    pub(super) fn new(server: &ServerHandle, place: &Place, announced: &Arc<Announced>) -> Self {
        let (server, place, announced) = (server.clone(), place.clone(), announced.clone());
        Self { server, place, announced, bytes: Vec::new(), state: State::Head }
    }

    /// The client receives nothing of it any more.
    pub(super) fn stop(&mut self) {
        self.state = State::Stopped;
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        if self.state == State::Stopped {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        if self.state == State::Head {
            let Some(end) = self.bytes.windows(END_OF_HEAD.len()).position(|part| part == END_OF_HEAD) else {
                return;
            };
            self.bytes.drain(..end + END_OF_HEAD.len());
            self.state = State::Frames;
        }
        let mut rest = std::mem::take(&mut self.bytes);
        let mut heard = 0;
        while let Some((is_text, payload, length)) = message(&rest[heard..]) {
            if let (true, Ok(text)) = (is_text, std::str::from_utf8(payload)) {
                self.message(text);
            }
            heard += length;
        }
        rest.drain(..heard);
        self.bytes = rest;
    }

    fn message(&self, text: &str) {
        match frames_of(text) {
            Ok(frames) => frames.into_iter().for_each(|frame| self.frame(frame)),
            Err(problem) => self.server.strange(format!("the server sends {text}: {problem}")),
        }
    }

    fn frame(&self, text: &str) {
        let Ok(Envelope { frame, .. }) = Envelope::<ServerFrame<'_>>::parse(text) else {
            return self.server.strange(format!("the server sends {text}"));
        };
        match frame {
            ServerFrame::Welcome(welcome) => {
                if !welcome.resumed {
                    self.announced.seq.store(0, Ordering::Relaxed);
                }
                let known = self.server.disk.ledger(Ledger::longest_lease_ms);
                if known < welcome.lease_ms && !self.server.is_displaced() {
                    self.server.journal.breach(format!(
                        "a lease of {} ms was given, but the store knows of {known} ms",
                        welcome.lease_ms
                    ));
                }
            }
            ServerFrame::Numbered { seq, event } => {
                let is_again = self.announced.seq.fetch_max(seq, Ordering::Relaxed) >= seq;
                if let ServerEvent::Granted { id, token, .. } = event {
                    self.granted(token, is_again || is_reclaim(id));
                }
            }
            _ => {}
        }
    }

    fn granted(&self, token: FencingToken, again: bool) {
        if !again {
            self.server.check_token(&self.place, token);
        }
        let needs_recovery = self.server.disk.ledger(|ledger| ledger.needs_recovery(&self.place.scope));
        if !needs_recovery && !self.server.is_displaced() {
            self.server
                .journal
                .breach(format!("token {token} was told before the store knows that it has to recover"));
        }
    }
}

/// The ids of reclaims are odd, those of all else even.
pub(super) fn is_reclaim(id: u64) -> bool {
    !id.is_multiple_of(2)
}

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// The first message of a server in these bytes, if all of it is there: whether it is text, its payload, and
/// the length of the whole.
fn message(bytes: &[u8]) -> Option<(bool, &[u8], usize)> {
    let (kind, length) = (bytes.first()? & 0x0F, usize::from(*bytes.get(1)?));
    let (start, length) = match length {
        126 => (4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize),
        length => (2, length),
    };
    Some((kind == 1, bytes.get(start..start + length)?, start + length))
}
