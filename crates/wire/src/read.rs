//! Reading the fields of a frame: serde_json splits the object, each field is then judged by itself, so that
//! an error can name the field, the value and the rule.

use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use lockhouse_core::{FencingToken, InvalidName, Mode, Name, NameBuf, OwnerId};
use serde::de::{Deserializer, Error, Visitor};
use serde_json::value::RawValue;

use crate::NUMBER_LIMIT;
use crate::fault::FrameProblem;

pub(super) type RawField<'a> = Option<&'a RawValue>;
pub(super) type ReadResult<T> = Result<T, FrameProblem<'static>>;

pub(super) const POSITIVE: &str = "a positive integer below 2^53";
const OWNER: &str = "the id of an owner";
const NATURAL: &str = "an integer from 0 to 2^53 - 1";
const STRING: &str = "a string";
const WELL_FORMED: &str = "a string of well-formed Unicode";
const BOOLEAN: &str = "true or false";
const MODE: &str = "\"exclusive\" or \"shared\"";
const INSTANT: &str = "an instant like \"2026-11-20T12:00:00.000Z\"";

/// Splits an object; `R` has one [`RawField`] for each known key.
pub(super) fn object<'a, R: serde::Deserialize<'a>>(text: &'a str) -> ReadResult<R> {
    // Serde would take an array for a struct as well.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(FrameProblem::with_message("the message is no JSON object"));
    }
    serde_json::from_str(text)
        .map_err(|error| FrameProblem::with_message(format!("the message is no frame: {error}")))
}

fn wrong(key: &'static str, raw: &RawValue, rule: &'static str) -> FrameProblem<'static> {
    FrameProblem::with_value(key, raw.get(), rule)
}

/// The field is needed.
pub(super) fn needed<'a>(
    key: &'static str,
    field: RawField<'a>,
    rule: &'static str,
) -> ReadResult<&'a RawValue> {
    field.ok_or_else(|| FrameProblem::with_value(key, "absent", rule))
}

fn digits(raw: &RawValue) -> Option<u64> {
    raw.get().parse().ok().filter(|number| *number < NUMBER_LIMIT)
}

/// 1, 2, 3 …
pub(super) fn positive(key: &'static str, field: RawField<'_>) -> ReadResult<u64> {
    let raw = needed(key, field, POSITIVE)?;
    digits(raw).filter(|number| *number != 0).ok_or_else(|| wrong(key, raw, POSITIVE))
}

/// 1, 2, 3 …, if it is there.
pub(super) fn positive_if_any(key: &'static str, field: RawField<'_>) -> ReadResult<Option<u64>> {
    field.map(|_| positive(key, field)).transpose()
}

/// 0, 1, 2 …
pub(super) fn natural(key: &'static str, field: RawField<'_>) -> ReadResult<u64> {
    let raw = needed(key, field, NATURAL)?;
    digits(raw).ok_or_else(|| wrong(key, raw, NATURAL))
}

/// 0, 1, 2 …, or `default` if it is not there.
pub(super) fn natural_or(key: &'static str, field: RawField<'_>, default: u64) -> ReadResult<u64> {
    if field.is_none() { Ok(default) } else { natural(key, field) }
}

pub(super) fn natural_if_any(key: &'static str, field: RawField<'_>) -> ReadResult<Option<u64>> {
    field.map(|_| natural(key, field)).transpose()
}

pub(super) fn token(key: &'static str, field: RawField<'_>) -> ReadResult<FencingToken> {
    positive(key, field).map(FencingToken::new)
}

/// The public id of an owner: its number as a string.
pub(super) fn owner(key: &'static str, field: RawField<'_>) -> ReadResult<OwnerId> {
    let raw = needed(key, field, OWNER)?;
    let text = text(key, field)?;
    let number = text.parse().ok().filter(|number| (1..NUMBER_LIMIT).contains(number));
    number.filter(|number| number.to_string() == text).map(OwnerId::new).ok_or_else(|| wrong(key, raw, OWNER))
}

pub(super) fn flag(key: &'static str, field: RawField<'_>) -> ReadResult<bool> {
    let raw = needed(key, field, BOOLEAN)?;
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong(key, raw, BOOLEAN)),
    }
}

pub(super) fn flag_or_false(key: &'static str, field: RawField<'_>) -> ReadResult<bool> {
    if field.is_none() { Ok(false) } else { flag(key, field) }
}

pub(super) fn text<'a>(key: &'static str, field: RawField<'a>) -> ReadResult<Cow<'a, str>> {
    let raw = needed(key, field, STRING)?;
    match contents(raw) {
        Contents::Plain(text) => Ok(Cow::Borrowed(text)),
        Contents::Escaped => match serde_json::from_str(raw.get()) {
            Ok(text) => Ok(Cow::Owned(text)),
            Err(_) => Err(wrong(key, raw, WELL_FORMED)),
        },
        Contents::NoString => Err(wrong(key, raw, STRING)),
    }
}

pub(super) fn text_if_any<'a>(key: &'static str, field: RawField<'a>) -> ReadResult<Option<Cow<'a, str>>> {
    field.map(|_| text(key, field)).transpose()
}

/// A text that no error repeats.
pub(super) fn secret<'a>(key: &'static str, field: RawField<'a>) -> ReadResult<Cow<'a, str>> {
    text(key, field).map_err(|_| FrameProblem::with_field(key, STRING))
}

pub(super) fn mode(key: &'static str, field: RawField<'_>) -> ReadResult<Mode> {
    let raw = needed(key, field, MODE)?;
    match &*text(key, field)? {
        "exclusive" => Ok(Mode::Exclusive),
        "shared" => Ok(Mode::Shared),
        _ => Err(wrong(key, raw, MODE)),
    }
}

pub(super) fn instant(key: &'static str, field: RawField<'_>) -> ReadResult<SystemTime> {
    let raw = needed(key, field, INSTANT)?;
    humantime::parse_rfc3339(&text(key, field)?).map_err(|_| wrong(key, raw, INSTANT))
}

pub(super) fn instant_if_any(key: &'static str, field: RawField<'_>) -> ReadResult<Option<SystemTime>> {
    field.map(|_| instant(key, field)).transpose()
}

/// A string of 16-bit units; the inner result tells of a name that is reserved.
pub(super) fn name(
    key: &'static str,
    field: RawField<'_>,
) -> ReadResult<Result<NameBuf, FrameProblem<'static>>> {
    let raw = needed(key, field, STRING)?;
    let name = match contents(raw) {
        Contents::Plain(text) => Name::new(text).map(Name::to_buf),
        Contents::Escaped => {
            let bytes = wtf8(raw.get()).map_err(|_| wrong(key, raw, STRING))?;
            Name::from_wtf8(&bytes).map(Name::to_buf)
        }
        Contents::NoString => return Err(wrong(key, raw, STRING)),
    };
    match name {
        Ok(name) => Ok(Ok(name)),
        Err(InvalidName::Reserved) => Ok(Err(wrong(key, raw, "a name that does not begin with \"-\""))),
        Err(InvalidName::NotWtf8(_)) => Err(wrong(key, raw, STRING)),
    }
}

/// Reads a resource name that is written as a JSON string, as on the wire.
///
/// # Errors
///
/// What it must be instead.
pub fn name_from_json(text: &str) -> Result<NameBuf, FrameProblem<'static>> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) if matches!(contents(raw), Contents::NoString) => {
            Err(FrameProblem::with_value("name", text, "a JSON string"))
        }
        Ok(raw) => name("name", Some(raw))?,
        Err(_) => Err(FrameProblem::with_value("name", text, "a JSON string")),
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

/// serde_json gives the lone surrogates of a string only to those who ask for bytes.
fn wtf8(string: &str) -> serde_json::Result<Vec<u8>> {
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(STRING)
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
    serde_json::Deserializer::from_str(string).deserialize_bytes(Bytes)
}
