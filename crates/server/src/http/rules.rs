//! The rules of members and parameters, each in one place: what is read by them, and what the OpenAPI document says of them.

use lockhouse::Limits;
use lockhouse_wire as wire;
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AllOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{Object, RefOr};

use crate::limits::BUCKET_LIMITS;

/// A string of well-formed Unicode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) unit: Unit,
    /// What else it must be: a check, the same as a pattern, and in words.
    pub(super) form: Option<Form>,
    pub(super) example: &'static str,
}

/// What a length is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bytes of UTF-8.
    Byte,
    Character,
    /// 16 bits, as JavaScript counts.
    Half,
}

/// How a text must look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) has: fn(&str) -> bool,
    pub(super) pattern: &'static str,
    pub(super) words: &'static str,
}

/// An integer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) example: u64,
}

/// One of some words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<T: 'static>(pub(super) &'static [(&'static str, T)]);

const LIMITS: Limits = BUCKET_LIMITS;

const fn text(least: usize, most: usize, unit: Unit, example: &'static str) -> Text {
    Text { least, most, unit, form: None, example }
}

const UNRESERVED: Form = Form {
    has: |text| !text.starts_with('-'),
    pattern: "^([^-]|$)",
    words: "that does not begin with \"-\"",
};

const DIGITS: Form = Form {
    has: |text| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0'),
    pattern: "^[1-9][0-9]*$",
    words: "of digits, as it was told when the owner began",
};

const VISIBLE: Form = Form {
    has: |text| text.bytes().all(|byte| byte.is_ascii_graphic()),
    pattern: "^[!-~]+$",
    words: "of visible ASCII characters",
};

const ABSOLUTE: Form = Form {
    has: |text| text.starts_with('/') && !text.contains('\0'),
    pattern: "^/",
    words: "that is an absolute path",
};

const HEX: Form = Form {
    has: |text| {
        text.len().is_multiple_of(2) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    },
    pattern: "^([0-9a-f][0-9a-f])*$",
    words: "that was the `next` of the page before",
};

pub(super) const BUCKET: Text = text(1, wire::SCOPE_BYTES, Unit::Byte, "default");
pub(super) const LABEL: Text = text(1, LIMITS.label_bytes, Unit::Byte, "Anna, customer care");
pub(super) const METADATA: Text = text(0, LIMITS.metadata_bytes, Unit::Byte, "on the phone with him");
pub(super) const OWNER: Text = Text { form: Some(DIGITS), ..text(1, 16, Unit::Byte, "17") };
pub(super) const RESOURCE: Text =
    Text { form: Some(UNRESERVED), ..text(0, LIMITS.name_units, Unit::Half, "seat/12a") };
pub(super) const PREFIX: Text = text(0, LIMITS.name_units, Unit::Half, "seat/");
// Bounded so that no pair of them, percent-encoded, is longer than a name may be.
pub(super) const KIND: Text = text(1, 64, Unit::Character, "customer");
pub(super) const ID: Text = text(1, 256, Unit::Character, "42");
pub(super) const CLAIM_KEY: Text = text(0, 256, Unit::Byte, "order 4711");
pub(super) const SECRET: Text = text(1, 256, Unit::Byte, "q7mC…");
pub(super) const IDEMPOTENCY_KEY: Text =
    Text { form: Some(VISIBLE), ..text(1, 255, Unit::Byte, "9f1c6c5e-6c0b-4b0e-8f3c-0e6f0f3c6a55") };
pub(super) const REASON: Text = text(0, 256, Unit::Byte, "the customer has cancelled");
pub(super) const FILE: Text =
    Text { form: Some(ABSOLUTE), ..text(1, 4096, Unit::Byte, "/var/backups/lockhouse.db") };
pub(super) const CURSOR: Text = Text { form: Some(HEX), ..text(0, 32_768, Unit::Byte, "0000") };

const fn duration(example: u64) -> Number {
    Number { least: LIMITS.ttl_ms.0, most: LIMITS.ttl_ms.1, example }
}

pub(super) const OWNER_TTL_MS: Number = duration(1_200_000);
pub(super) const OWNER_MAX_MS: Number = duration(28_800_000);
pub(super) const CLAIM_TTL_MS: Number = duration(60_000);
pub(super) const TOKEN: Number = Number { least: 1, most: wire::NUMBER_LIMIT - 1, example: 18 };
/// How often a step was told that its owner has a lock already.
pub(super) const AGAIN: Number = Number { least: 0, most: u32::MAX as u64, example: 0 };
pub(super) const PAGE: Number = Number { least: 1, most: 1000, example: 100 };

/// Locks in one call.
pub(super) const LOCKS: usize = LIMITS.locks_per_command;
/// Locks that are given back, or spared, by one call.
pub(super) const RELEASES: usize = 1000;

impl Text {
    /// The rule in words.
    pub(super) fn words(&self) -> String {
        let Self { least, most, unit, .. } = *self;
        let unit = match unit {
            Unit::Byte => "bytes of UTF-8",
            Unit::Character => "characters",
            Unit::Half => "16-bit units",
        };
        let length =
            if least == 0 { format!("at most {most} {unit}") } else { format!("{least} to {most} {unit}") };
        match self.form {
            None => format!("a string of {length}"),
            Some(Form { words, .. }) => format!("a string of {length} {words}"),
        }
    }

    pub(super) fn admits(&self, text: &str) -> bool {
        let length = match self.unit {
            Unit::Byte => text.len(),
            Unit::Character => text.chars().count(),
            Unit::Half => text.encode_utf16().count(),
        };
        (self.least..=self.most).contains(&length) && self.form.is_none_or(|form| (form.has)(text))
    }

    pub(super) fn schema(&self) -> ObjectBuilder {
        let least = (self.least > 0).then_some(self.least);
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(least)
            .max_length(Some(self.most))
            .pattern(self.form.map(|form| form.pattern))
            .examples([json!(self.example)])
    }
}

impl Number {
    pub(super) fn words(&self) -> String {
        format!("an integer from {} to {}", self.least, self.most)
    }

    /// Reads digits; `None` for everything else.
    pub(super) fn parse(&self, text: &str) -> Option<u64> {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| plain && self.admits(*number))
    }

    /// Reads a number of JSON; `1.0` and `1e3` are integers there.
    pub(super) fn parse_json(&self, text: &str) -> Option<u64> {
        let whole = || text.parse().ok().filter(|number: &f64| number.fract() == 0.0 && *number >= 0.0);
        self.parse(text).or_else(|| whole().map(|number| number as u64).filter(|number| self.admits(*number)))
    }

    fn admits(&self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }

    pub(super) fn schema(&self) -> ObjectBuilder {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(self.least))
            .maximum(Some(self.most))
            .examples([json!(self.example)])
    }
}

impl<T: Copy> Choice<T> {
    pub(super) fn words(&self) -> String {
        let quoted: Vec<String> = self.0.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        }
    }

    pub(super) fn parse(&self, text: &str) -> Option<T> {
        self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    }

    pub(super) fn schema(&self) -> ObjectBuilder {
        let words = self.0.iter().map(|(word, _)| Value::from(*word));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words))
    }
}

/// The schema of a request's body, member by member.
pub(super) struct Members(ObjectBuilder);

impl Members {
    pub(super) fn new(description: &str) -> Self {
        Self(ObjectBuilder::new().description(Some(description)))
    }

    /// A member that must be there.
    pub(super) fn needs(self, key: &str, schema: ObjectBuilder, description: &str) -> Self {
        let member = schema.description(Some(description));
        Self(self.0.property(key, member).required(key))
    }

    /// A member that may be left out, or be `null`.
    pub(super) fn may(self, key: &str, schema: ObjectBuilder, description: &str) -> Self {
        let member = nullable(schema.description(Some(description)).build());
        Self(self.0.property(key, member))
    }

    /// A list that must be there.
    pub(super) fn needs_list(
        self,
        key: &str,
        items: impl Into<RefOr<Schema>>,
        most: usize,
        description: &str,
    ) -> Self {
        Self(self.0.property(key, list(items, most, description)).required(key))
    }

    /// A list that may be left out, or be `null`.
    pub(super) fn may_list(
        self,
        key: &str,
        items: impl Into<RefOr<Schema>>,
        most: usize,
        description: &str,
    ) -> Self {
        let types = SchemaType::from_iter([Type::Array, Type::Null]);
        Self(self.0.property(key, list(items, most, description).schema_type(types)))
    }

    pub(super) fn example(self, example: Value) -> Self {
        Self(self.0.examples([example]))
    }

    pub(super) fn build(self) -> RefOr<Schema> {
        self.0.into()
    }

    /// Either the members of the first list, and none of those of the second, or the other way round; all are members that may be left out.
    pub(super) fn build_either(self, one: &[&str], other: &[&str]) -> RefOr<Schema> {
        let nothing = || ObjectBuilder::new().schema_type(Type::Null);
        let string = || ObjectBuilder::new().schema_type(Type::String);
        let with = |there: &[&str], absent: &[&str]| {
            let object =
                there.iter().fold(ObjectBuilder::new(), |it, key| it.property(*key, string()).required(*key));
            absent.iter().fold(object, |it, key| it.property(*key, nothing()))
        };
        let either = OneOfBuilder::new().item(with(one, other)).item(with(other, one));
        AllOfBuilder::new().item(self.0.build()).item(either).into()
    }
}

fn nullable(mut member: Object) -> Object {
    if let SchemaType::Type(kind) = member.schema_type {
        member.schema_type = SchemaType::from_iter([kind, Type::Null]);
    }
    // An enumeration has to list what it may be.
    if let Some(values) = &mut member.enum_values {
        values.push(Value::Null);
    }
    member
}

fn list(items: impl Into<RefOr<Schema>>, most: usize, description: &str) -> ArrayBuilder {
    let items: RefOr<Schema> = items.into();
    ArrayBuilder::new().items(items).min_items(Some(1)).max_items(Some(most)).description(Some(description))
}

pub(super) fn flag() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}
