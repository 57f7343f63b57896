//! Reading the fields of a frame: serde_json splits the object; each field is then read by its rule.

use std::borrow::Cow;
use std::time::SystemTime;

use lockhouse_core::{FencingToken, InvalidName, NameBuf, OwnerId};
use serde_json::value::RawValue;

use crate::NUMBER_LIMIT;
use crate::decode::json::{self, NoString};
use crate::decode::{Field, FieldValue, NoText, Number, Text, Violation};
use crate::fault::FrameProblem;

pub(super) type RawField<'a> = Option<&'a RawValue>;
pub(super) type FrameField<'a> = Field<'static, FrameValue<'a>>;
pub(super) type ReadResult<T> = Result<T, FrameProblem<'static>>;

pub(super) const STRING: Text = Text::ANY;
pub(super) const POSITIVE: Number =
    Number { words: Some("a positive integer below 2^53"), ..Number::new(1, NUMBER_LIMIT - 1, 1) };
pub(super) const NATURAL: Number =
    Number { words: Some("an integer from 0 to 2^53 - 1"), ..Number::new(0, NUMBER_LIMIT - 1, 0) };
const OWNER: &str = "the id of an owner";
const WELL_FORMED: &str = "a string of well-formed Unicode";
const INSTANT: &str = "an instant like \"2026-11-20T12:00:00.000Z\"";
const UNRESERVED: &str = "a name that does not begin with \"-\"";

/// A value in a frame, where integers are digits alone.
#[derive(Clone, Copy)]
pub(super) struct FrameValue<'a>(pub(super) &'a RawValue);

impl<'a> FieldValue<'a> for FrameValue<'a> {
    fn shown(self) -> Cow<'a, str> {
        self.0.get().into()
    }

    fn text(self) -> Result<Cow<'a, str>, NoText> {
        json::string(self.0).map_err(|error| match error {
            NoString::OtherType => NoText { rule: Some("a string") },
            NoString::IllFormed => NoText { rule: Some(WELL_FORMED) },
        })
    }

    fn name(self) -> Option<NameBuf> {
        json::name(self.0)?.ok()
    }

    fn number(self) -> Option<u64> {
        json::digits(self.0.get())
    }

    fn flag(self) -> Option<bool> {
        self.0.get().parse().ok()
    }
}

/// Splits an object; `R` has one [`RawField`] for each known key.
pub(super) fn object<'a, R: serde::Deserialize<'a>>(text: &'a str) -> ReadResult<R> {
    // Serde would take an array for a struct as well.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(FrameProblem::with_message("the message is no JSON object"));
    }
    serde_json::from_str(text)
        .map_err(|error| FrameProblem::with_message(format!("the message is no frame: {error}")))
}

/// A field of the frame itself.
pub(super) fn field<'a>(key: &'static str, value: RawField<'a>) -> FrameField<'a> {
    inner("", key, value)
}

/// A field of an object in the frame.
pub(super) fn inner<'a>(parent: &'static str, key: &'static str, value: RawField<'a>) -> FrameField<'a> {
    Field::new(parent, key, value.map(FrameValue))
}

pub(super) fn token(field: FrameField<'_>) -> Result<FencingToken, Violation> {
    field.number(&POSITIVE).map(FencingToken::new)
}

/// The public id of an owner: its number as a string.
pub(super) fn owner(field: FrameField<'_>) -> Result<OwnerId, Violation> {
    field.parse(
        || OWNER.into(),
        |text| {
            let number = text.parse().ok().filter(|number| (1..NUMBER_LIMIT).contains(number));
            number.filter(|number| number.to_string() == text).map(OwnerId::new)
        },
    )
}

pub(super) fn instant(field: FrameField<'_>) -> Result<SystemTime, Violation> {
    field.parse(|| INSTANT.into(), |text| humantime::parse_rfc3339(&text).ok())
}

/// A string of 16-bit units; the inner result is the violation by a reserved name.
pub(super) fn name(field: FrameField<'_>) -> Result<Result<NameBuf, Violation>, Violation> {
    let name = field.read(
        || STRING.words(),
        |FrameValue(raw)| match json::name(raw)? {
            Ok(name) => Some(Some(name)),
            Err(InvalidName::Reserved) => Some(None),
            Err(InvalidName::NotWtf8(_)) => None,
        },
    )?;
    Ok(name.ok_or_else(|| field.broken(UNRESERVED)))
}

/// Objects of a list; `T` has one [`RawField`] for each known key.
pub(super) fn list<'a, T: serde::Deserialize<'a>>(field: FrameField<'a>) -> Result<Vec<T>, Violation> {
    field.read(|| "a list of objects".into(), |FrameValue(raw)| serde_json::from_str(raw.get()).ok())
}

/// Reads a resource name that is written as a JSON string, as on the wire.
///
/// # Errors
///
/// The problem, with the rule that the text must keep.
pub fn name_from_json(text: &str) -> Result<NameBuf, FrameProblem<'static>> {
    let raw = serde_json::from_str::<&RawValue>(text).ok().filter(|raw| raw.get().starts_with('"'));
    let raw = raw.ok_or_else(|| Violation::new("name", text, "a JSON string"))?;
    Ok(name(field("name", Some(raw)))??)
}
