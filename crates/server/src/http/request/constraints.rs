//! The constraints of members and parameters, each in one place, for the reading of requests and for the
//! OpenAPI document.

use lockhouse::{Limits, NewClaim, Record, RecordKind};
use lockhouse_wire as wire;
use lockhouse_wire::decode::{Form, Number, Text, Unit};

use crate::limits::BUCKET_LIMITS;

const LIMITS: Limits = BUCKET_LIMITS;

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

/// The position of an entry, as `http::query::page` writes it: kind, number, and the bytes of the name.
const POSITION: Form = Form {
    has: |text| {
        let is_kind = matches!(text.as_bytes(), [b'0', b'0'..=b'3', ..]);
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_kind && is_hex && text.len() >= 18 && text.len().is_multiple_of(2)
    },
    pattern: "^0[0-3]([0-9a-f][0-9a-f]){8,}$",
    words: "that was the `next` of the page before",
};

pub(crate) const BUCKET: Text = Text::new(1, wire::SCOPE_BYTES, Unit::Byte, "default");
pub(crate) const LABEL: Text = Text::new(1, LIMITS.label_bytes, Unit::Byte, "Anna, customer care");
pub(crate) const METADATA: Text = Text::new(0, LIMITS.metadata_bytes, Unit::Byte, "on the phone with him");
pub(crate) const OWNER: Text = Text::new(1, 16, Unit::Byte, "17").with_form(DIGITS);
pub(crate) const RESOURCE: Text =
    Text::new(0, LIMITS.name_units, Unit::Half, "seat/12a").with_form(UNRESERVED);
pub(crate) const PREFIX: Text = Text::new(0, LIMITS.name_units, Unit::Half, "seat/");
pub(crate) const KIND: Text = Text::new(1, RecordKind::NAME_CHARS, Unit::Character, "customer");
pub(crate) const ID: Text = Text::new(1, Record::ID_CHARS, Unit::Character, "42");
pub(crate) const CLAIM_KEY: Text = Text::new(0, NewClaim::KEY_BYTES, Unit::Byte, "order 4711");
pub(crate) const SECRET: Text = Text::new(1, 256, Unit::Byte, "q7mC…");
pub(crate) const IDEMPOTENCY_KEY: Text =
    Text::new(1, 255, Unit::Byte, "9f1c6c5e-6c0b-4b0e-8f3c-0e6f0f3c6a55").with_form(VISIBLE);
pub(crate) const REASON: Text = Text::new(0, 256, Unit::Byte, "the customer has cancelled");
pub(crate) const FILE: Text = Text::new(1, 4096, Unit::Byte, "/var/backups/lockhouse.db").with_form(ABSOLUTE);
pub(crate) const CURSOR: Text =
    Text::new(18, 32_768, Unit::Byte, "020000000000000001736561742f313261").with_form(POSITION);

const fn duration(example: u64) -> Number {
    Number::new(LIMITS.ttl_ms.0, LIMITS.ttl_ms.1, example)
}

pub(crate) const OWNER_TTL_MS: Number = duration(1_200_000);
pub(crate) const OWNER_MAX_MS: Number = duration(28_800_000);
pub(crate) const CLAIM_TTL_MS: Number = duration(60_000);
pub(crate) const TOKEN: Number = Number::new(1, wire::NUMBER_LIMIT - 1, 18);
/// How often a step was answered that its owner has a lock already.
pub(crate) const AGAIN: Number = Number::new(0, u32::MAX as u64, 0);
pub(crate) const PAGE: Number = Number::new(1, 1000, 100);
/// How many entries a page of the history has.
pub(crate) const HISTORY_PAGE: Number = Number::new(1, lockhouse::store::HISTORY_PAGE as u64, 50);
/// The number of the last entry on the page before.
pub(crate) const HISTORY_CURSOR: Number = Number::new(1, wire::NUMBER_LIMIT - 1, 4711);

/// Locks in one call.
pub(crate) const LOCKS: usize = LIMITS.locks_per_command;
