//! Reading fields by rules: the common part of frames, bodies and query strings of HTTP, and settings.
//!
//! ```text
//!   frame: JSON ────────┐
//!   body: JSON ─────────┼─▶ FieldValue ─▶ Field ── rule ──▶ value
//!   query string: text ─┤                   └──▶ Violation: field, value, rule ─▶ error of the edge
//!   settings: TOML ─────┘
//! ```
//!
//! A source defines how a value is written and shown. The rules, their words, the path of a field, and the
//! part of a value that an error repeats are defined here, so that they are the same everywhere.

mod duration;
mod field;
pub(crate) mod json;
mod rule;
mod violation;

pub use duration::parse_duration;
pub use field::{Field, FieldValue, NoText};
pub use json::{digits, name_in_json, text_in_json};
pub use rule::{Choice, FLAG, Form, MODES, Number, Text, Unit};
pub use violation::{Violation, item_path, member_path, shorten, shorten_to};
