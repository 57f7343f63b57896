//! Tickets on the wire.

use std::borrow::Cow;
use std::fmt;

use crate::TICKET_BYTES;
use crate::fault::FrameProblem;
use crate::read::{RawField, ReadResult, STRING, field};

/// The proof of a grant for a later epoch: opaque to clients, and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket<'a>(Cow<'a, str>);

impl<'a> Ticket<'a> {
    /// The ticket of this text, which has at most [`TICKET_BYTES`].
    pub fn new(text: impl Into<Cow<'a, str>>) -> Self {
        Self(text.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The ticket on its own.
    pub fn into_owned(self) -> Ticket<'static> {
        Ticket(Cow::Owned(self.0.into_owned()))
    }

    pub(super) fn read(ticket: RawField<'a>) -> ReadResult<Self> {
        let text = field("ticket", ticket).secret().text(&STRING)?;
        if text.len() > TICKET_BYTES {
            return Err(FrameProblem::with_field(
                "ticket",
                format!("a string of at most {TICKET_BYTES} bytes"),
            ));
        }
        Ok(Self(text))
    }
}

/// Tickets reach no logs.
impl fmt::Debug for Ticket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}
