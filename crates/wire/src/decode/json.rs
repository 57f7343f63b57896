//! Texts, names and numbers as JSON has them.

use std::borrow::Cow;
use std::fmt;

use lockhouse_core::{InvalidName, Name, NameBuf};
use serde::de::{Deserializer, Error, Visitor};
use serde_json::value::RawValue;

/// The reason why a value is no string of well-formed Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoString {
    /// Another type.
    OtherType,
    /// A string with a lone surrogate.
    IllFormed,
}

/// An integer in digits alone.
pub fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// The text of a JSON string of well-formed Unicode.
pub fn text_in_json(raw: &RawValue) -> Option<Cow<'_, str>> {
    string(raw).ok()
}

/// The resource name of a JSON string, which may have lone surrogates.
pub fn name_in_json(raw: &RawValue) -> Option<NameBuf> {
    name(raw)?.ok()
}

pub(crate) fn string(raw: &RawValue) -> Result<Cow<'_, str>, NoString> {
    match contents(raw) {
        Contents::Plain(text) => Ok(Cow::Borrowed(text)),
        Contents::Escaped => serde_json::from_str(raw.get()).map(Cow::Owned).map_err(|_| NoString::IllFormed),
        Contents::NoString => Err(NoString::OtherType),
    }
}

/// `None` for a value that is no string.
pub(crate) fn name(raw: &RawValue) -> Option<Result<NameBuf, InvalidName>> {
    match contents(raw) {
        Contents::Plain(text) => Some(Name::new(text).map(Name::to_buf)),
        Contents::Escaped => Some(Name::from_wtf8(&wtf8(raw.get()).ok()?).map(Name::to_buf)),
        Contents::NoString => None,
    }
}

enum Contents<'a> {
    Plain(&'a str),
    Escaped,
    NoString,
}

fn contents(raw: &RawValue) -> Contents<'_> {
    match raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        None => Contents::NoString,
        Some(inner) if inner.as_bytes().contains(&b'\\') => Contents::Escaped,
        Some(inner) => Contents::Plain(inner),
    }
}

/// serde_json returns the lone surrogates of a string only to a visitor of bytes.
fn wtf8(string: &str) -> serde_json::Result<Vec<u8>> {
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
    serde_json::Deserializer::from_str(string).deserialize_bytes(Bytes)
}
