//! The constraints of members and parameters, each in one place, for the reading of requests and for the
//! OpenAPI document.

use lockhouse::{EventPosition, Limits, NewClaim, Record, RecordKind};
use lockhouse_wire as wire;
use lockhouse_wire::decode::{Form, Number, Text, Unit};

use crate::limits::BUCKET_LIMITS;

const LIMITS: Limits = BUCKET_LIMITS;

/// A client id, a label or a claimant.
const CLIENT_BYTES: usize =
    if LIMITS.label_bytes > wire::CLIENT_ID_BYTES { LIMITS.label_bytes } else { wire::CLIENT_ID_BYTES };

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

/// The position of an entry, as `http::query::page` writes it: the order and the kind, the age if that is the
/// sort, the number, and the bytes of the name.
const POSITION: Form = Form {
    has: |text| {
        let least = match text.as_bytes() {
            [b'0', b'0'..=b'3', ..] => 18,
            [b'1' | b'2', b'0'..=b'3', ..] => 34,
            _ => return false,
        };
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex && text.len() >= least && text.len().is_multiple_of(2)
    },
    pattern: "^(0[0-3]([0-9a-f][0-9a-f]){8,}|[12][0-3]([0-9a-f][0-9a-f]){16,})$",
    words: "that was the `next` of the page before",
};

const PLACES: Form = Form {
    has: |text| {
        let parts: Vec<_> = text.split('.').collect();
        let is_number =
            |text: &str| (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_hex = |text: &str| {
            (1..=16).contains(&text.len())
                && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        matches!(parts[..], [stored, epoch, web] if is_number(stored) && is_hex(epoch) && is_number(web))
    },
    pattern: "^[0-9]{1,16}[.][0-9a-f]{1,16}[.][0-9]{1,16}$",
    words: "that was the `next` of the page before",
};

const RFC_3339: Form = Form {
    has: |text| humantime::parse_rfc3339(text).is_ok(),
    pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$",
    words: "that is an instant of RFC 3339 in UTC, as 2026-11-20T12:00:00Z",
};

const EVENT_PLACE: Form = Form {
    has: |text| text.parse::<EventPosition>().is_ok(),
    pattern: "^[0-9a-f]{1,16}[.][0-9]{1,20}$",
    words: "that was the `id` of an event",
};

pub(crate) const BUCKET: Text = Text::new(1, wire::SCOPE_BYTES, Unit::Byte, "default");
pub(crate) const BUCKET_PREFIX: Text = Text::new(0, wire::SCOPE_BYTES, Unit::Byte, "order");
pub(crate) const LABEL: Text = Text::new(1, LIMITS.label_bytes, Unit::Byte, "Anna, customer care");
pub(crate) const METADATA: Text = Text::new(0, LIMITS.metadata_bytes, Unit::Byte, "on the phone with him");
pub(crate) const OWNER: Text = Text::new(1, 16, Unit::Byte, "17").with_form(DIGITS);
pub(crate) const RESOURCE: Text =
    Text::new(0, LIMITS.name_units, Unit::Half, "seat/12a").with_form(UNRESERVED);
pub(crate) const PREFIX: Text = Text::new(0, LIMITS.name_units, Unit::Half, "seat/");
pub(crate) const CLIENT: Text = Text::new(0, CLIENT_BYTES, Unit::Byte, "worker-7");
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
/// The least age of an entry.
pub(crate) const OLDER_THAN_MS: Number = Number::new(0, wire::NUMBER_LIMIT - 1, 60_000);
pub(crate) const PAGE: Number = Number::new(1, 1000, 100);
/// How many sessions a page has.
pub(crate) const SESSION_PAGE: Number = Number::new(1, 200, 50);
/// The number of the last session on the page before.
pub(crate) const SESSION_CURSOR: Number = Number::new(1, wire::NUMBER_LIMIT - 1, 4711);
/// How many entries a page of the history has.
pub(crate) const HISTORY_PAGE: Number = Number::new(1, lockhouse::store::HISTORY_PAGE as u64, 50);
/// The places of the last entries on the page before, as `http::history::bodies` writes them.
pub(crate) const HISTORY_CURSOR: Text =
    Text::new(5, 50, Unit::Byte, "4711.0000000000000000.0").with_form(PLACES);
pub(crate) const INSTANT: Text =
    Text::new(20, 30, Unit::Byte, "2026-11-20T12:00:00.000Z").with_form(RFC_3339);
/// The id of an event.
pub(crate) const EVENT_ID: Text = Text::new(3, 40, Unit::Byte, "9f3a61c20e5b7d84.17").with_form(EVENT_PLACE);

/// Locks in one call.
pub(crate) const LOCKS: usize = LIMITS.locks_per_command;
