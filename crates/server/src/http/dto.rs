//! Parts that several answers have in common.

use std::time::SystemTime;

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use lockhouse::{HolderKind, MemoryReservation, Mode, NameBuf};
use lockhouse_wire as wire;
use percent_encoding::percent_decode_str;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{KnownFormat, Schema, SchemaFormat, Type};
use utoipa::openapi::{ObjectBuilder, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// An instant: RFC 3339, UTC, with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(pub(crate) SystemTime);

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

/// An answer that is JSON already, so that its content could be counted, and its memory until it is written.
#[derive(Debug)]
pub(crate) struct JsonAnswer {
    text: Vec<u8>,
    #[expect(dead_code, reason = "kept for its end")]
    memory: MemoryReservation,
}

impl JsonAnswer {
    pub(crate) fn text(what: &impl Serialize) -> Vec<u8> {
        serde_json::to_vec(what).expect("what is answered can be written")
    }

    pub(crate) fn new(text: Vec<u8>, memory: MemoryReservation) -> Self {
        Self { text, memory }
    }
}

impl AsRef<[u8]> for JsonAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl IntoResponse for JsonAnswer {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, json)], Bytes::from_owner(self)).into_response()
    }
}

/// A resource name as a JSON string; lone surrogates as escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonName(pub(crate) NameBuf);

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
pub(crate) enum ModeWord {
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
pub(crate) struct Holder {
    /// By which of the three disciplines.
    pub(crate) kind: HoldKind,
    /// The owner's label, the claimant, or the client id of a web lock.
    #[schema(example = "Anna, customer care")]
    pub(crate) label: String,
    /// The owner of an offline lock.
    #[schema(example = "17")]
    pub(crate) owner: Option<String>,
    /// In which mode.
    pub(crate) mode: ModeWord,
    /// Since when.
    pub(crate) since: At,
    /// When it ends unless it is renewed.
    #[schema(value_type = Option<At>)]
    pub(crate) expires_at: Option<At>,
    /// What the holder said of it.
    pub(crate) metadata: Option<String>,
}

/// The discipline by which a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum HoldKind {
    Web,
    Offline,
    Claim,
}

/// A record that could not be locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conflict {
    /// The resource name that stands for it.
    pub(crate) name: JsonName,
    /// The kind of the record; empty if the name is that of none.
    #[schema(example = "customer")]
    pub(crate) kind: String,
    /// Its id.
    #[schema(example = "42")]
    pub(crate) id: String,
    /// The first of its holders.
    #[schema(max_items = 8)]
    pub(crate) holders: Vec<Holder>,
    /// How many requests wait for the name.
    pub(crate) queued: u32,
}

/// A lock that an owner was to hold and does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LostLock {
    /// The resource name that stands for it.
    pub(crate) name: JsonName,
    /// The kind of the record; empty if the name is that of none.
    #[schema(example = "customer")]
    pub(crate) kind: String,
    /// Its id.
    #[schema(example = "42")]
    pub(crate) id: String,
}

impl From<NameBuf> for LostLock {
    fn from(name: NameBuf) -> Self {
        let (kind, id) = record_of(&name).unwrap_or_default();
        Self { name: JsonName(name), kind, id }
    }
}

/// A claim that became final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Assignment {
    /// What is assigned.
    pub(crate) resource: JsonName,
    /// To whom.
    pub(crate) claimant: String,
    /// Since when.
    pub(crate) assigned_at: At,
    /// The fencing token of the claim.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: u64,
}

impl From<lockhouse::Assignment> for Assignment {
    fn from(assignment: lockhouse::Assignment) -> Self {
        Self {
            resource: JsonName(assignment.resource),
            claimant: assignment.claimant,
            assigned_at: At(assignment.since),
            fencing_token: assignment.fencing_token.get(),
        }
    }
}

impl HoldKind {
    pub(crate) fn of(kind: HolderKind) -> (Self, Option<String>) {
        match kind {
            HolderKind::Offline(owner) => (Self::Offline, Some(owner.to_string())),
            HolderKind::Claim => (Self::Claim, None),
            _ => (Self::Web, None),
        }
    }
}

impl From<lockhouse::Holder> for Holder {
    fn from(holder: lockhouse::Holder) -> Self {
        let (kind, owner) = HoldKind::of(holder.kind);
        Self {
            kind,
            label: holder.client_id,
            owner,
            mode: holder.mode.into(),
            since: At(holder.since),
            expires_at: holder.expires_at.map(At),
            metadata: holder.metadata,
        }
    }
}

impl From<lockhouse::Conflict> for Conflict {
    fn from(conflict: lockhouse::Conflict) -> Self {
        let (kind, id) = record_of(&conflict.name).unwrap_or_default();
        let holders = conflict.holders.into_iter().map(Holder::from).collect();
        Self { name: JsonName(conflict.name), kind, id, holders, queued: conflict.queued }
    }
}

/// The kind and the id of the record that a name stands for.
pub(crate) fn record_of(name: &NameBuf) -> Option<(String, String)> {
    let decode = |part: &str| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned());
    let (kind, id) = name.as_name().as_str()?.split_once('/')?;
    Some((decode(kind)?, decode(id)?))
}
