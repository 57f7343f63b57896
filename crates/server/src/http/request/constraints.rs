//! The constraints of members and parameters, each in one place: what is read by them, and what the OpenAPI
//! document says of them.

use lockhouse::Limits;
use lockhouse_wire as wire;
use serde_json::{Value, json};
use utoipa::openapi::ObjectBuilder;
use utoipa::openapi::schema::Type;

use crate::limits::BUCKET_LIMITS;

/// A string of well-formed Unicode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) unit: Unit,
    /// What else it must be: a check, the same as a pattern, and in words.
    pub(crate) form: Option<Form>,
    pub(crate) example: &'static str,
}

/// What a length is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes of UTF-8.
    Byte,
    Character,
    /// 16 bits, as JavaScript counts.
    Half,
}

/// How a text must look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) has: fn(&str) -> bool,
    pub(crate) pattern: &'static str,
    pub(crate) words: &'static str,
}

/// An integer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) example: u64,
}

/// One of some words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

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

pub(crate) const BUCKET: Text = text(1, wire::SCOPE_BYTES, Unit::Byte, "default");
pub(crate) const LABEL: Text = text(1, LIMITS.label_bytes, Unit::Byte, "Anna, customer care");
pub(crate) const METADATA: Text = text(0, LIMITS.metadata_bytes, Unit::Byte, "on the phone with him");
pub(crate) const OWNER: Text = Text { form: Some(DIGITS), ..text(1, 16, Unit::Byte, "17") };
pub(crate) const RESOURCE: Text =
    Text { form: Some(UNRESERVED), ..text(0, LIMITS.name_units, Unit::Half, "seat/12a") };
pub(crate) const PREFIX: Text = text(0, LIMITS.name_units, Unit::Half, "seat/");
// Bounded so that no pair of them, percent-encoded, is longer than a name may be.
pub(crate) const KIND: Text = text(1, 64, Unit::Character, "customer");
pub(crate) const ID: Text = text(1, 256, Unit::Character, "42");
pub(crate) const CLAIM_KEY: Text = text(0, 256, Unit::Byte, "order 4711");
pub(crate) const SECRET: Text = text(1, 256, Unit::Byte, "q7mC…");
pub(crate) const IDEMPOTENCY_KEY: Text =
    Text { form: Some(VISIBLE), ..text(1, 255, Unit::Byte, "9f1c6c5e-6c0b-4b0e-8f3c-0e6f0f3c6a55") };
pub(crate) const REASON: Text = text(0, 256, Unit::Byte, "the customer has cancelled");
pub(crate) const FILE: Text =
    Text { form: Some(ABSOLUTE), ..text(1, 4096, Unit::Byte, "/var/backups/lockhouse.db") };
pub(crate) const CURSOR: Text = Text { form: Some(HEX), ..text(0, 32_768, Unit::Byte, "0000") };

const fn duration(example: u64) -> Number {
    Number { least: LIMITS.ttl_ms.0, most: LIMITS.ttl_ms.1, example }
}

pub(crate) const OWNER_TTL_MS: Number = duration(1_200_000);
pub(crate) const OWNER_MAX_MS: Number = duration(28_800_000);
pub(crate) const CLAIM_TTL_MS: Number = duration(60_000);
pub(crate) const TOKEN: Number = Number { least: 1, most: wire::NUMBER_LIMIT - 1, example: 18 };
/// How often a step was told that its owner has a lock already.
pub(crate) const AGAIN: Number = Number { least: 0, most: u32::MAX as u64, example: 0 };
pub(crate) const PAGE: Number = Number { least: 1, most: 1000, example: 100 };

/// Locks in one call.
pub(crate) const LOCKS: usize = LIMITS.locks_per_command;
impl Text {
    /// The rule in words.
    pub(crate) fn words(&self) -> String {
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

    pub(crate) fn admits(&self, text: &str) -> bool {
        let length = match self.unit {
            Unit::Byte => text.len(),
            Unit::Character => text.chars().count(),
            Unit::Half => text.encode_utf16().count(),
        };
        (self.least..=self.most).contains(&length) && self.form.is_none_or(|form| (form.has)(text))
    }

    pub(crate) fn schema(&self) -> ObjectBuilder {
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
    pub(crate) fn words(&self) -> String {
        format!("an integer from {} to {}", self.least, self.most)
    }

    /// Reads digits; `None` for everything else.
    pub(crate) fn parse(&self, text: &str) -> Option<u64> {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| plain && self.admits(*number))
    }

    /// Reads a number of JSON; `1.0` and `1e3` are integers there.
    pub(crate) fn parse_json(&self, text: &str) -> Option<u64> {
        let whole = || text.parse().ok().filter(|number: &f64| number.fract() == 0.0 && *number >= 0.0);
        self.parse(text).or_else(|| whole().map(|number| number as u64).filter(|number| self.admits(*number)))
    }

    fn admits(&self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }

    pub(crate) fn schema(&self) -> ObjectBuilder {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(self.least))
            .maximum(Some(self.most))
            .examples([json!(self.example)])
    }
}

impl<T: Copy> Choice<T> {
    pub(crate) fn words(&self) -> String {
        let quoted: Vec<String> = self.0.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        }
    }

    pub(crate) fn parse(&self, text: &str) -> Option<T> {
        self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    }

    pub(crate) fn schema(&self) -> ObjectBuilder {
        let words = self.0.iter().map(|(word, _)| Value::from(*word));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words))
    }
}
