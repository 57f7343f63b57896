//! Problems of frames: the field, the value, the rule.

use std::borrow::Cow;
use std::fmt;

use crate::decode::Violation;

/// Codes of errors that answer a frame; the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A field is missing, has the wrong type or an impossible value.
    BadFrame,
    /// No such frame type.
    UnknownType,
    /// The specification's NotSupportedError.
    NotSupported,
    /// A bound was exceeded.
    QuotaExceeded,
    /// The agent was never joined, or has ended.
    UnknownAgent,
    /// The credential has not the permission.
    Forbidden,
    /// The server stops granting.
    Closing,
    /// The store accepts no writes at the moment, so that no durable answer is possible.
    Unavailable,
    /// The server failed, or the code is unknown to this version.
    Internal,
}

/// Codes of errors that end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FatalCode {
    /// No usable frame.
    BadFrame,
    /// Not the next number, or an acknowledgement of a frame that was never sent.
    BadSeq,
    /// Over [`FRAME_BYTES`](super::FRAME_BYTES).
    TooLarge,
    /// No credential that the server takes, or not any more; the session has ended.
    Unauthenticated,
    /// The credential may do nothing in the bucket, or less than before; the session has ended.
    Forbidden,
    /// No answer to a ping for the length of the lease; the session has ended.
    LeaseExpired,
    /// Another connection resumed this session.
    Replaced,
    /// The outbound buffer overflowed; the session has ended.
    SlowReader,
}

impl ErrorCode {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::BadFrame => "bad_frame",
            Self::UnknownType => "unknown_type",
            Self::NotSupported => "not_supported",
            Self::QuotaExceeded => "quota_exceeded",
            Self::UnknownAgent => "unknown_agent",
            Self::Forbidden => "forbidden",
            Self::Closing => "closing",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    pub(super) fn from_word(word: &str) -> Self {
        match word {
            "bad_frame" => Self::BadFrame,
            "unknown_type" => Self::UnknownType,
            "not_supported" => Self::NotSupported,
            "quota_exceeded" => Self::QuotaExceeded,
            "unknown_agent" => Self::UnknownAgent,
            "forbidden" => Self::Forbidden,
            "closing" => Self::Closing,
            "unavailable" => Self::Unavailable,
            _ => Self::Internal,
        }
    }
}

impl FatalCode {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::BadFrame => "bad_frame",
            Self::BadSeq => "bad_seq",
            Self::TooLarge => "too_large",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::LeaseExpired => "lease_expired",
            Self::Replaced => "replaced",
            Self::SlowReader => "slow_reader",
        }
    }

    /// The code with which the WebSocket is closed after it.
    pub fn close_code(self) -> u16 {
        use super::close;
        match self {
            Self::BadFrame | Self::BadSeq => close::BAD_FRAME,
            Self::TooLarge => close::TOO_LARGE,
            Self::Unauthenticated => close::UNAUTHENTICATED,
            Self::Forbidden => close::FORBIDDEN,
            Self::LeaseExpired => close::LEASE_EXPIRED,
            Self::Replaced => close::REPLACED,
            Self::SlowReader => close::SLOW_READER,
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        let all = [
            Self::BadFrame,
            Self::BadSeq,
            Self::TooLarge,
            Self::Unauthenticated,
            Self::Forbidden,
            Self::LeaseExpired,
            Self::Replaced,
            Self::SlowReader,
        ];
        all.into_iter().find(|code| code.word() == word)
    }
}

/// The problem of a frame, for machines and as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameProblem<'a> {
    /// The field, if one is to blame.
    pub field: Option<Cow<'a, str>>,
    /// The value, at most 64 characters of it.
    pub value: Option<Cow<'a, str>>,
    /// The rule that the value must keep.
    pub rule: Option<Cow<'a, str>>,
    /// The same as a sentence.
    pub message: Cow<'a, str>,
}

impl<'a> FrameProblem<'a> {
    /// A value that breaks a rule; read as "`field` is `value`, but must be `rule`".
    pub fn with_value(field: &'static str, value: &str, rule: impl Into<Cow<'static, str>>) -> Self {
        Violation::new(field, value, rule).into()
    }

    /// A field that is not there, or whose value must not be repeated.
    pub fn with_field(field: &'static str, rule: impl Into<Cow<'static, str>>) -> Self {
        Violation::withheld(field, rule).into()
    }

    /// The same, said of a frame in an array, by its place there from 0; a frame alone has none.
    pub fn of_frame(mut self, index: Option<usize>) -> Self {
        if let Some(index) = index {
            self.message = format!("frame {index} of the array: {}", self.message).into();
        }
        self
    }

    /// Something for which no field is to blame.
    pub fn with_message(message: impl Into<Cow<'a, str>>) -> Self {
        Self { field: None, value: None, rule: None, message: message.into() }
    }
}

impl From<Violation> for FrameProblem<'_> {
    fn from(violation: Violation) -> Self {
        let message = violation.to_string().into();
        let Violation { field, value, rule } = violation;
        Self { field: Some(field.into()), value: value.map(Cow::Owned), rule: Some(rule), message }
    }
}

impl fmt::Display for FrameProblem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A message that is no frame a client may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadClientFrame {
    /// The framing is broken: the connection ends with [`FatalCode::BadFrame`].
    Fatal(FrameProblem<'static>),
    /// The frame counts as processed and is answered by an error; the connection goes on.
    Answered {
        /// The acknowledgement that it carried.
        ack: u64,
        /// The number that it used up.
        seq: Option<u64>,
        /// The request, query or watch that ends with the error.
        id: Option<u64>,
        /// The kind of error.
        code: ErrorCode,
        /// The problem.
        problem: Box<FrameProblem<'static>>,
    },
}

impl fmt::Display for BadClientFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fatal(problem) => write!(f, "bad_frame: {problem}"),
            Self::Answered { code, problem, .. } => write!(f, "{}: {problem}", code.word()),
        }
    }
}

impl std::error::Error for BadClientFrame {}

/// A message that is no frame a server may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadServerFrame(pub FrameProblem<'static>);

impl fmt::Display for BadServerFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no frame of a lockhouse server: {}", self.0)
    }
}

impl std::error::Error for BadServerFrame {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_repeats_at_most_64_characters_of_the_value() {
        let problem = FrameProblem::with_value("mode", &"é".repeat(1000), "short");
        assert_eq!(problem.value.as_deref().map(|v| v.chars().count()), Some(64));
        let problem = FrameProblem::with_value("mode", &"é".repeat(64), "short");
        assert_eq!(problem.value.as_deref(), Some("é".repeat(64).as_str()));
    }
}
