//! Frames to be written to a connection.

use std::collections::VecDeque;

use lockhouse_wire::MessageBuilder;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// A message with so many bytes takes no more frames: what a slow client takes of it is seen as progress only
/// once it has all.
const MESSAGE_BYTES: usize = 8 << 10;

/// Frames on their way into a connection, in order.
#[derive(Debug, Default)]
pub(crate) struct WriteQueue {
    /// The frame that goes before all others: the `welcome`, and later a ping.
    first: Option<Utf8Bytes>,
    frames: VecDeque<Frame>,
    bytes: usize,
    unnumbered_bytes: usize,
}

#[derive(Debug)]
struct Frame {
    text: Utf8Bytes,
    /// The frame is stored nowhere else.
    is_alone: bool,
}

impl WriteQueue {
    pub(crate) fn push(&mut self, text: Utf8Bytes) {
        self.bytes += text.len();
        self.frames.push_back(Frame { text, is_alone: false });
    }

    /// Adds a frame that is stored nowhere else.
    pub(crate) fn push_alone(&mut self, text: Utf8Bytes) {
        self.bytes += text.len();
        self.unnumbered_bytes += text.len();
        self.frames.push_back(Frame { text, is_alone: true });
    }

    /// A frame that goes before all others. At most one can wait.
    pub(crate) fn push_first(&mut self, text: Utf8Bytes) {
        self.bytes += self.first.insert(text).len();
    }

    /// Takes the next message: a frame that goes before all others alone, so that nothing delays it; of the
    /// others as many as are short.
    pub(crate) fn pop(&mut self) -> Option<Utf8Bytes> {
        if let Some(first) = self.first.take() {
            self.bytes -= first.len();
            return Some(first);
        }
        if self.frames.len() < 2 {
            return self.pop_frame();
        }
        let mut message = MessageBuilder::default();
        while let Some(next) = self.frames.front() {
            // A long frame goes alone, so that the short ones before it do not wait until it has come.
            let is_full =
                message.bytes() >= MESSAGE_BYTES || (message.bytes() > 0 && next.text.len() >= MESSAGE_BYTES);
            if is_full || !message.try_push(&next.text) {
                break;
            }
            self.pop_frame();
        }
        message.take().map(Utf8Bytes::from)
    }

    fn pop_frame(&mut self) -> Option<Utf8Bytes> {
        let Frame { text, is_alone } = self.frames.pop_front()?;
        self.bytes -= text.len();
        self.unnumbered_bytes -= if is_alone { text.len() } else { 0 };
        Some(text)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.frames.is_empty()
    }

    /// Whether a frame waits that goes before all others.
    pub(crate) fn has_first(&self) -> bool {
        self.first.is_some()
    }

    /// The bytes of frames that are stored nowhere else.
    pub(crate) fn unnumbered_bytes(&self) -> usize {
        self.unnumbered_bytes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_wire::{BATCH_FRAMES, FRAME_BYTES};

    use super::*;

    #[test]
    fn frames_go_together_and_what_goes_first_goes_alone() {
        let mut queue = WriteQueue::default();
        queue.push("{1}".into());
        assert_eq!(queue.pop().unwrap(), "{1}");
        queue.push("{1}".into());
        queue.push_alone("{22}".into());
        queue.push_first("{0}".into());
        assert_eq!((queue.bytes(), queue.unnumbered_bytes()), (10, 4));
        assert_eq!(queue.pop().unwrap(), "{0}");
        assert_eq!(queue.pop().unwrap(), "[{1},{22}]");
        assert_eq!((queue.bytes(), queue.unnumbered_bytes()), (0, 0));
        assert!(queue.pop().is_none());
    }

    #[test]
    fn a_message_keeps_its_bounds() {
        let mut queue = WriteQueue::default();
        (0..=BATCH_FRAMES).for_each(|_| queue.push("{}".into()));
        let long = "x".repeat(FRAME_BYTES);
        queue.push(long.as_str().into());
        queue.push(long[..MESSAGE_BYTES].into());
        queue.push("{}".into());
        let messages: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let lengths: Vec<_> = messages.iter().map(|message| message.len()).collect();
        assert_eq!(lengths, [3 * BATCH_FRAMES + 1, 2, FRAME_BYTES, MESSAGE_BYTES, 2]);
    }
}
