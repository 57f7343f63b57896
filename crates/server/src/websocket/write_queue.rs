//! Frames to be written to a connection.

use std::collections::VecDeque;

use tokio_tungstenite::tungstenite::Utf8Bytes;

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

    pub(crate) fn pop(&mut self) -> Option<Utf8Bytes> {
        if let Some(first) = self.first.take() {
            self.bytes -= first.len();
            return Some(first);
        }
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
