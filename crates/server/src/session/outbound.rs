//! Frames to the client: numbered ones, stored until they are acknowledged, and others, sent once.

use std::collections::VecDeque;

use lockhouse_wire::{Envelope, ServerEvent, ServerFrame};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::websocket::WriteQueue;

use crate::bounds::{RESEND_BYTES, RESEND_FRAMES};

/// The outbound side of a session.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    /// Numbered frames that are not acknowledged, in order; the last one has the number `sent`.
    unacknowledged: VecDeque<Utf8Bytes>,
    unacknowledged_bytes: usize,
    /// The highest number given out.
    sent: u64,
    /// Whether there is a connection to write to.
    attached: bool,
    /// The frames to be written to the connection.
    pub(super) queue: WriteQueue,
}

/// An acknowledgement of a frame that was never sent, or a resume from before the acknowledged frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadAck {
    /// The lowest number that would have been right.
    pub(super) low: u64,
    /// The highest.
    pub(super) high: u64,
}

impl Outbound {
    /// Numbers the event and stores it.
    pub(super) fn push(&mut self, event: ServerEvent<'_>) {
        self.sent += 1;
        // Without an acknowledgement: sent again, it would be an old one.
        let frame = ServerFrame::Numbered { seq: self.sent, event };
        let text = Utf8Bytes::from(Envelope::new(frame).to_text());
        self.unacknowledged_bytes += text.len();
        if self.attached {
            self.queue.push(text.clone());
        }
        self.unacknowledged.push_back(text);
    }

    /// A frame that is sent now or never.
    pub(super) fn push_unnumbered(&mut self, text: impl Into<Utf8Bytes>) {
        if self.attached {
            self.queue.push_alone(text.into());
        }
    }

    /// As [`Outbound::push_unnumbered`], but before all that waits. At most one frame can wait so.
    pub(super) fn push_first(&mut self, text: impl Into<Utf8Bytes>) {
        if self.attached {
            self.queue.push_first(text.into());
        }
    }

    /// The client has processed all frames up to this number.
    pub(super) fn acknowledge(&mut self, ack: u64) -> Result<(), BadAck> {
        if ack > self.sent {
            return Err(self.bad_ack());
        }
        while self.first_unacknowledged() <= ack {
            let frame = self.unacknowledged.pop_front();
            self.unacknowledged_bytes -= frame.map_or(0, |frame| frame.len());
        }
        Ok(())
    }

    /// Goes on over a new connection, whose client has processed all frames up to `received`.
    pub(super) fn resume(&mut self, received: u64) -> Result<(), BadAck> {
        if received + 1 < self.first_unacknowledged() {
            return Err(self.bad_ack());
        }
        self.acknowledge(received)?;
        self.attached = true;
        self.queue = WriteQueue::default();
        Ok(())
    }

    /// Sends the unacknowledged frames again.
    pub(super) fn send_again(&mut self) {
        self.unacknowledged.iter().cloned().for_each(|frame| self.queue.push(frame));
    }

    /// The connection is gone; returns the frames that were not written.
    pub(super) fn detach(&mut self) -> WriteQueue {
        self.attached = false;
        std::mem::take(&mut self.queue)
    }

    /// Bytes that the client has not taken: a frame that waits for its acknowledgement and is still to be
    /// written counts once.
    pub(super) fn bytes(&self) -> usize {
        self.unacknowledged_bytes + self.queue.unnumbered_bytes()
    }

    /// Bytes that the client was sent and has not acknowledged.
    pub(super) fn unacknowledged_bytes(&self) -> usize {
        self.unacknowledged_bytes
    }

    /// Whether more is unacknowledged than a session may have.
    pub(super) fn overflowed(&self) -> bool {
        self.unacknowledged.len() > RESEND_FRAMES || self.unacknowledged_bytes > RESEND_BYTES
    }

    /// The number of the last frame that the client has acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.first_unacknowledged() - 1
    }

    fn first_unacknowledged(&self) -> u64 {
        self.sent + 1 - self.unacknowledged.len() as u64
    }

    fn bad_ack(&self) -> BadAck {
        BadAck { low: self.acknowledged(), high: self.sent }
    }
}

#[cfg(test)]
mod tests {
    use lockhouse::core::FencingToken;
    use lockhouse_wire::{EndedReason, LostReason, Ticket, frames_of};

    use super::*;
    use crate::bounds::UNASKED_FRAME_BYTES;

    fn released(id: u64) -> ServerEvent<'static> {
        ServerEvent::Released { id, held: true }
    }

    fn texts(queue: &mut WriteQueue) -> Vec<String> {
        let messages: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        messages.iter().flat_map(|message| frames_of(message).unwrap()).map(str::to_owned).collect()
    }

    #[test]
    fn a_resume_sends_what_was_not_processed_with_the_old_numbers() {
        let mut outbound = Outbound::default();
        outbound.resume(0).unwrap();
        (1..=3).for_each(|id| outbound.push(released(id)));
        outbound.push_unnumbered("\"unnumbered\"");
        assert_eq!(texts(&mut outbound.detach()).len(), 4);
        outbound.push(released(4));
        outbound.push_unnumbered("nobody is there");
        outbound.resume(2).unwrap();
        outbound.send_again();
        let expected = [3, 4].map(|n| format!(r#"{{"type":"released","seq":{n},"id":{n},"held":true}}"#));
        assert_eq!(texts(&mut outbound.queue), expected);
    }

    #[test]
    fn an_acknowledgement_frees_and_an_old_one_changes_nothing() {
        let mut outbound = Outbound::default();
        (1..=3).for_each(|id| outbound.push(released(id)));
        assert_eq!(outbound.acknowledge(2), Ok(()));
        assert_eq!(outbound.acknowledge(1), Ok(()));
        assert_eq!(outbound.unacknowledged.len(), 1);
        assert_eq!(outbound.acknowledge(4), Err(BadAck { low: 2, high: 3 }));
        assert_eq!(outbound.resume(1), Err(BadAck { low: 2, high: 3 }));
        assert_eq!(outbound.acknowledge(3), Ok(()));
        assert_eq!(outbound.unacknowledged_bytes, 0);
    }

    #[test]
    fn what_goes_first_overtakes_what_waits() {
        let mut outbound = Outbound::default();
        outbound.push_first("nobody is there");
        outbound.resume(0).unwrap();
        outbound.push_unnumbered("a");
        outbound.push_first("b");
        assert!(outbound.queue.has_first());
        assert_eq!(outbound.queue.bytes(), 2);
        assert_eq!(texts(&mut outbound.queue), ["b", "a"]);
        assert!(outbound.queue.is_empty() && !outbound.queue.has_first());
    }

    #[test]
    fn unasked_frames_are_short() {
        const HIGHEST: u64 = (1 << 53) - 1;
        let longest = Ticket::new(format!("{}.{:032x}", u64::MAX, 0));
        for event in [
            ServerEvent::Granted { id: HIGHEST, token: FencingToken::new(HIGHEST), ticket: Some(longest) },
            ServerEvent::Lost { id: HIGHEST, reason: LostReason::Expired, why: None },
            ServerEvent::Ended { agent: HIGHEST, reason: EndedReason::Expired },
        ] {
            let text = Envelope::new(ServerFrame::Numbered { seq: HIGHEST, event }).to_text();
            assert!(text.len() <= UNASKED_FRAME_BYTES, "{} bytes: {text}", text.len());
        }
    }

    #[test]
    fn frames_beyond_the_bound_overflow() {
        let mut outbound = Outbound::default();
        (0..RESEND_FRAMES as u64).for_each(|id| outbound.push(released(id)));
        assert!(!outbound.overflowed());
        outbound.push(released(7));
        assert!(outbound.overflowed());
    }
}
