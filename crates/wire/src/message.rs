//! Messages: one frame, or an array of frames.

use std::ops::Range;

use serde_json::Deserializer;
use serde_json::value::RawValue;

use crate::fault::FrameProblem;
use crate::{BATCH_FRAMES, FRAME_BYTES};

/// How far a message has been read: its frames are read one after another, so that the frames before a bad
/// one count.
///
/// ```
/// use lockhouse_wire::MessageCursor;
///
/// let message = r#"[{"type":"ack","ack":1},{"type":"bye"}]"#;
/// let (mut cursor, mut frames) = (MessageCursor::default(), Vec::new());
/// while !cursor.is_over() {
///     let frame = cursor.next(message).unwrap();
///     frames.push(&message[frame]);
/// }
/// assert_eq!(frames, [r#"{"type":"ack","ack":1}"#, r#"{"type":"bye"}"#]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCursor {
    /// Where the rest begins.
    at: usize,
    /// The frames of the array that were read; none before the first, and for a message that is no array.
    read: Option<usize>,
    is_over: bool,
}

impl MessageCursor {
    /// Where the next frame of the message stands. The text there is valid JSON if the message is an array,
    /// and not looked at if it is a single frame. Behind the last one there is nothing: an empty range.
    ///
    /// # Errors
    ///
    /// An array that breaks a rule; nothing more of it can be read.
    pub fn next(&mut self, message: &str) -> Result<Range<usize>, FrameProblem<'static>> {
        if self.is_over {
            return Ok(message.len()..message.len());
        }
        let next = match self.read {
            Some(read) => self.in_array(message, read),
            None => match start_of_array(message) {
                Some(start) => {
                    self.at = start;
                    self.in_array(message, 0)
                }
                None => {
                    self.is_over = true;
                    Ok(0..message.len())
                }
            },
        };
        self.is_over |= next.is_err();
        next
    }

    /// The place in its array, from 0, of the frame that was read last; none if it came alone.
    pub fn index(&self) -> Option<usize> {
        self.read.map(|read| read.saturating_sub(1))
    }

    /// Whether the last frame has been read, or nothing more can be.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The bytes that are still to be read.
    pub fn left(&self, message: &str) -> usize {
        if self.is_over { 0 } else { message.len() - self.at }
    }

    fn in_array(&mut self, message: &str, read: usize) -> Result<Range<usize>, FrameProblem<'static>> {
        let bad = |why: String| FrameProblem::with_message(why).of_frame(Some(read));
        if read == BATCH_FRAMES {
            return Err(bad(format!("a message has at most {BATCH_FRAMES} frames")));
        }
        let start = skip_space(message, self.at);
        match message.as_bytes().get(start) {
            Some(b']') if read == 0 => return Err(bad("an array has at least one frame".to_owned())),
            Some(b'[') => return Err(bad("an array stands in no array".to_owned())),
            _ => {}
        }
        let mut values = Deserializer::from_str(&message[start..]).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(bad(error.to_string())),
            None => return Err(bad("it is missing".to_owned())),
        }
        let end = start + values.byte_offset();
        let behind = skip_space(message, end);
        match message.as_bytes().get(behind) {
            Some(b',') => self.at = behind + 1,
            Some(b']') if skip_space(message, behind + 1) == message.len() => self.is_over = true,
            _ => return Err(bad("behind it must stand a comma or the end of the array".to_owned())),
        }
        self.read = Some(read + 1);
        Ok(start..end)
    }
}

/// The texts of all frames of a message.
///
/// # Errors
///
/// An array that breaks a rule.
pub fn frames_of(message: &str) -> Result<Vec<&str>, FrameProblem<'static>> {
    let (mut cursor, mut frames) = (MessageCursor::default(), Vec::new());
    while !cursor.is_over() {
        frames.push(&message[cursor.next(message)?]);
    }
    Ok(frames)
}

/// Where the first element of an array stands; none if the message is no array.
fn start_of_array(message: &str) -> Option<usize> {
    let start = skip_space(message, 0);
    (message.as_bytes().get(start) == Some(&b'[')).then_some(start + 1)
}

/// Where the text behind white space of JSON begins.
fn skip_space(text: &str, from: usize) -> usize {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    from + text.as_bytes()[from..].iter().take_while(|byte| is_space(byte)).count()
}

/// A message under construction: frames go together, as many as a message may have.
///
/// ```
/// use lockhouse_wire::MessageBuilder;
///
/// let mut builder = MessageBuilder::default();
/// assert!(builder.try_push("{}") && builder.try_push("{}"));
/// assert_eq!(builder.take().as_deref(), Some("[{},{}]"));
/// assert_eq!(builder.take(), None);
/// ```
#[derive(Debug, Default)]
pub struct MessageBuilder {
    /// The frames, each behind a bracket or a comma.
    text: String,
    frames: usize,
}

impl MessageBuilder {
    /// Adds a frame; false if the message has no space for it. A first one always has.
    pub fn try_push(&mut self, frame: &str) -> bool {
        // A comma before it, and the closing bracket.
        let fits = self.frames < BATCH_FRAMES && self.text.len() + frame.len() + 2 <= FRAME_BYTES;
        if self.frames > 0 && !fits {
            return false;
        }
        self.text.push(if self.frames == 0 { '[' } else { ',' });
        self.text.push_str(frame);
        self.frames += 1;
        true
    }

    /// The bytes of the frames so far.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The message: a frame alone, or an array. None if there is no frame.
    pub fn take(&mut self) -> Option<String> {
        let mut text = std::mem::take(&mut self.text);
        match std::mem::take(&mut self.frames) {
            0 => return None,
            1 => _ = text.remove(0),
            _ => text.push(']'),
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames up to the end, and the error there.
    fn frames(message: &str) -> (Vec<&str>, Option<String>) {
        let (mut cursor, mut frames) = (MessageCursor::default(), Vec::new());
        while !cursor.is_over() {
            match cursor.next(message) {
                Ok(frame) => frames.push(&message[frame]),
                Err(problem) => return (frames, Some(problem.message.into_owned())),
            }
        }
        assert_eq!((cursor.left(message), &message[cursor.next(message).unwrap()]), (0, ""));
        (frames, None)
    }

    #[test]
    fn a_message_is_one_frame_or_an_array_of_them() {
        assert_eq!(frames(r#"{"type":"bye"}"#), (vec![r#"{"type":"bye"}"#], None));
        assert_eq!(frames("nonsense"), (vec!["nonsense"], None));
        assert_eq!(frames(""), (vec![""], None));
        assert_eq!(frames("[{}]"), (vec!["{}"], None));
        assert_eq!(frames(" [ {\"a\":\"],[\"} ,\n{} ]\t"), (vec!["{\"a\":\"],[\"}", "{}"], None));
        assert_eq!(
            frames("[1,\"x\"]"),
            (vec!["1", "\"x\""], None),
            "what is no object is refused as a frame"
        );
    }

    #[test]
    fn what_breaks_an_array_is_reported_with_its_place_and_the_frames_before_count() {
        for (message, before, why) in [
            ("[]", 0, "frame 0 of the array: an array has at least one frame"),
            ("[ ]", 0, "frame 0 of the array: an array has at least one frame"),
            ("[{},[{}]]", 1, "frame 1 of the array: an array stands in no array"),
            ("[[]]", 0, "frame 0 of the array: an array stands in no array"),
            ("[{} {}]", 0, "frame 0 of the array: behind it must stand a comma or the end of the array"),
            ("[{}", 0, "frame 0 of the array: behind it must stand a comma or the end of the array"),
            ("[{},{}]]", 1, "frame 1 of the array: behind it must stand a comma or the end of the array"),
            ("[{}] {}", 0, "frame 0 of the array: behind it must stand a comma or the end of the array"),
        ] {
            let (frames, problem) = frames(message);
            assert_eq!((frames.len(), problem.as_deref()), (before, Some(why)), "{message}");
        }
        for message in ["[", "[{},", "[{},]", "[{},{\"a\":}]", "[{\"a\"]"] {
            let (frames, problem) = frames(message);
            let problem = problem.unwrap();
            assert!(
                problem.starts_with(&format!("frame {} of the array: ", frames.len())),
                "{message}: {problem}"
            );
        }
    }

    #[test]
    fn a_message_has_at_most_so_many_frames() {
        let most = format!("[{}]", vec!["{}"; BATCH_FRAMES].join(","));
        assert_eq!(frames(&most).0.len(), BATCH_FRAMES);
        let more = format!("[{}]", vec!["{}"; BATCH_FRAMES + 1].join(","));
        let (frames, problem) = frames(&more);
        assert_eq!(frames.len(), BATCH_FRAMES);
        assert_eq!(problem.unwrap(), "frame 1024 of the array: a message has at most 1024 frames");
    }

    #[test]
    fn a_builder_makes_what_a_cursor_reads() {
        let mut builder = MessageBuilder::default();
        let long = "x".repeat(FRAME_BYTES);
        assert!(builder.try_push("{}"));
        assert!(!builder.try_push(&long[4..]), "brackets, a comma and the first frame");
        assert!(builder.try_push(&long[5..]) && !builder.try_push(""));
        assert_eq!(builder.take().map(|message| message.len()), Some(FRAME_BYTES));
        assert!(builder.try_push(&long), "a frame alone is no array");
        assert_eq!(builder.take(), Some(long));
        assert!((0..BATCH_FRAMES).all(|_| builder.try_push("{}")) && !builder.try_push("{}"));
        assert_eq!(frames(&builder.take().unwrap()).0.len(), BATCH_FRAMES);
        assert_eq!(builder.take(), None);
    }
}
