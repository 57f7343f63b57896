//! What several answers have in common.

use std::time::SystemTime;

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use lockhouse::{Mode, NameBuf, Room};
use lockhouse_wire as wire;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// An instant: RFC 3339, UTC, with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(pub(super) SystemTime);

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_millis(self.0))
    }
}

impl PartialSchema for At {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        let example = serde_json::json!("2026-11-20T12:00:00.000Z");
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).examples([example]).into()
    }
}

impl ToSchema for At {}

/// An answer that is JSON already, so that what it tells could be counted, and its room until it is written.
#[derive(Debug)]
pub(super) struct Told {
    text: Vec<u8>,
    #[expect(dead_code, reason = "kept for its end")]
    room: Room,
}

impl Told {
    pub(super) fn text(what: &impl Serialize) -> Vec<u8> {
        serde_json::to_vec(what).expect("what is answered can be written")
    }

    pub(super) fn new(text: Vec<u8>, room: Room) -> Self {
        Self { text, room }
    }
}

impl AsRef<[u8]> for Told {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl IntoResponse for Told {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, json)], Bytes::from_owner(self)).into_response()
    }
}

/// A resource name as a JSON string; lone surrogates as escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonName(pub(super) NameBuf);

impl Serialize for JsonName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_name().as_str() {
            Some(text) => serializer.serialize_str(text),
            None => RawValue::from_string(wire::name_to_json(self.0.as_name()))
                .expect("the protocol's encoder writes JSON")
                .serialize(serializer),
        }
    }
}

impl PartialSchema for JsonName {
    fn schema() -> RefOr<Schema> {
        let example = serde_json::json!("seat/12a");
        ObjectBuilder::new().schema_type(Type::String).max_length(Some(4096)).examples([example]).into()
    }
}

impl ToSchema for JsonName {}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum ModeWord {
    Exclusive,
    Shared,
}

impl From<Mode> for ModeWord {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self::Exclusive,
            Mode::Shared => Self::Shared,
        }
    }
}

/// Who holds a name, as told to those who are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Holder {
    /// By which of the three disciplines.
    pub(super) kind: HoldKind,
    /// The owner's label, the claimant, or the client id of a web lock.
    #[schema(example = "Anna, customer care")]
    pub(super) label: String,
    /// The owner of an offline lock.
    #[schema(example = "17")]
    pub(super) owner: Option<String>,
    /// In which mode.
    pub(super) mode: ModeWord,
    /// Since when.
    pub(super) since: At,
    /// When it ends unless it is renewed.
    #[schema(value_type = Option<At>)]
    pub(super) expires_at: Option<At>,
    /// What the holder said of it.
    pub(super) metadata: Option<String>,
}

/// The discipline by which a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum HoldKind {
    Web,
    Offline,
    Claim,
}

/// A record that could not be locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Conflict {
    /// The resource name that stands for it.
    pub(super) name: JsonName,
    /// The kind of the record; empty if the name is that of none.
    #[schema(example = "customer")]
    pub(super) kind: String,
    /// Its id.
    #[schema(example = "42")]
    pub(super) id: String,
    /// The first of its holders.
    #[schema(max_items = 8)]
    pub(super) holders: Vec<Holder>,
    /// How many requests wait for the name.
    pub(super) queued: u32,
}
