//! Credentials on the wire.

use std::borrow::Cow;
use std::fmt;

use crate::CREDENTIAL_BYTES;
use crate::fault::FrameProblem;
use crate::read::{RawField, ReadResult, STRING, field};

/// The proof of a client's identity: an API key or a token. The credential is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential<'a>(Cow<'a, str>);

impl<'a> Credential<'a> {
    /// The credential of this text, which has 1 to [`CREDENTIAL_BYTES`] visible ASCII characters; `None` for
    /// any other text.
    pub fn new(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        let is_usable =
            (1..=CREDENTIAL_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_usable.then_some(Self(text))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The credential on its own.
    pub fn into_owned(self) -> Credential<'static> {
        Credential(Cow::Owned(self.0.into_owned()))
    }

    pub(super) fn read_if_any(credential: RawField<'a>) -> ReadResult<Option<Self>> {
        if credential.is_none() {
            return Ok(None);
        }
        let rule = || format!("a string of 1 to {CREDENTIAL_BYTES} visible ASCII characters");
        let text = field("credential", credential).secret().text(&STRING)?;
        Self::new(text).map(Some).ok_or_else(|| FrameProblem::with_field("credential", rule()))
    }
}

/// Credentials reach no logs.
impl fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}
