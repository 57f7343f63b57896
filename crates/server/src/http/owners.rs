//! `owners`: sessions and business transactions, which hold offline locks.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::BASE;
use super::access::Caller;
use super::body::JsonBody;
use super::desk::{self, OwnerKey};
use super::locks::HeldLock;
use super::parameters::{Bearer, InBucket, OfOwner};
use super::read::{FromMembers, Members, Read};
use super::rules::{self, LABEL, METADATA, OWNER_MAX_MS, OWNER_TTL_MS};
use super::views::{At, Told};
use crate::audit::{self, Deed};
use crate::state::AppState;

/// An owner to be.
#[derive(Clone, Debug)]
pub(super) struct NewOwner {
    pub(super) label: String,
    pub(super) metadata: Option<String>,
    pub(super) ttl_ms: u64,
    pub(super) max_ms: Option<u64>,
}

impl FromMembers for NewOwner {
    fn read(members: &Members<'_>) -> Read<Self> {
        Ok(Self {
            label: members.text("label", &LABEL)?,
            metadata: members.text_if_any("metadata", &METADATA)?,
            ttl_ms: members.number_if_any("ttlMs", &OWNER_TTL_MS)?.unwrap_or(OWNER_TTL_MS.example),
            max_ms: members.number_if_any("maxMs", &OWNER_MAX_MS)?,
        })
    }
}

impl PartialSchema for NewOwner {
    fn schema() -> RefOr<Schema> {
        let ttl = OWNER_TTL_MS.schema().default(Some(OWNER_TTL_MS.example.into()));
        rules::Members::new("An owner to be.")
            .needs("label", LABEL.schema(), "What it is called, such as the name of the user: shown to those who are refused.")
            .may("metadata", METADATA.schema(), "What else it says of itself, shown to others.")
            .may("ttlMs", ttl, "How long it lives without any activity. Whatever it locks, releases or asks of itself is one.")
            .may("maxMs", OWNER_MAX_MS.schema(), "How long it lives at most, whatever it does.")
            .example(json!({"label": "Anna, customer care", "ttlMs": 1_200_000}))
            .build()
    }
}

impl ToSchema for NewOwner {}

/// An owner, as told to whoever began it.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenedOwner {
    /// Its id, which is no secret.
    #[schema(example = "17")]
    pub(super) owner: String,
    /// What every call of the owner needs, as `Authorization: Bearer …`. It is told only here.
    pub(super) owner_secret: String,
    /// What it is called.
    pub(super) label: String,
    /// How long it lives without any activity.
    pub(super) ttl_ms: u64,
    /// When it ends unless more is heard of it.
    pub(super) expires_at: At,
    /// When it ends at the latest.
    #[schema(value_type = Option<At>)]
    pub(super) ends_at: Option<At>,
}

impl fmt::Debug for OpenedOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedOwner").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// A sign of life was taken note of.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Beat {
    /// The owner.
    #[schema(example = "17")]
    pub(super) owner: String,
    /// When it ends unless more is heard of it.
    pub(super) expires_at: At,
}

/// An owner and its locks.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerState {
    /// Its id.
    #[schema(example = "17")]
    pub(super) owner: String,
    /// What it is called.
    pub(super) label: String,
    /// What else it said of itself.
    pub(super) metadata: Option<String>,
    /// When it began.
    pub(super) since: At,
    /// How long it lives without any activity.
    pub(super) ttl_ms: u64,
    /// When it ends unless more is heard of it.
    pub(super) expires_at: At,
    /// When it ends at the latest.
    #[schema(value_type = Option<At>)]
    pub(super) ends_at: Option<At>,
    /// What it holds.
    pub(super) locks: Vec<HeldLock>,
}

/// Begin an owner
///
/// An owner stands for a session or a business transaction. Nothing is locked yet.
#[utoipa::path(
    post, context_path = BASE, path = "/owners", tag = "owners", operation_id = "openOwner", request_body = NewOwner,
    responses(
        (status = 201, description = "The owner lives.", body = OpenedOwner,
            headers(("Location" = String, description = "Where it is."))),
        (status = 503, description = "`unavailable`, `closing`."),
    ),
)]
pub(super) async fn open(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    JsonBody(new): JsonBody<NewOwner>,
) -> Read<(StatusCode, [(HeaderName, String); 1], Json<OpenedOwner>)> {
    let opened = desk::open_owner(&state, &bucket, &new).await?;
    let bucket = utf8_percent_encode(&bucket.bucket, NON_ALPHANUMERIC);
    let location = format!("/v1/buckets/{bucket}/owners/{}", opened.owner);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(opened)))
}

/// Say that an owner lives
///
/// Its TTL runs anew from now. Whatever else an owner does has the same effect.
#[utoipa::path(
    post, context_path = BASE, path = "/owners/{owner}/heartbeat", tag = "owners", operation_id = "heartbeat", security(("ownerSecret" = [])),
    responses(
        (status = 200, description = "The TTL runs anew.", body = Beat),
        (status = 404, description = "`unknown_owner`: it has ended."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(super) async fn heartbeat(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    of: OfOwner,
) -> Read<Json<Beat>> {
    desk::heartbeat(&state, &of.bucket, &OwnerKey { owner: of.owner, secret }).await.map(Json)
}

/// Show an owner and its locks
#[utoipa::path(
    get, context_path = BASE, path = "/owners/{owner}", tag = "owners", operation_id = "getOwner", security(("ownerSecret" = [])),
    responses(
        (status = 200, description = "The owner and what it holds.", body = OwnerState),
        (status = 404, description = "`unknown_owner`: it has ended."),
    ),
)]
pub(super) async fn show(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    of: OfOwner,
) -> Read<Told> {
    desk::owner(&state, &of.bucket, &OwnerKey { owner: of.owner, secret }).await
}

/// End an owner
///
/// All its locks are released. This is how a business transaction ends.
#[utoipa::path(
    delete, context_path = BASE, path = "/owners/{owner}", tag = "owners", operation_id = "endOwner", security(("ownerSecret" = [])),
    responses(
        (status = 204, description = "It has ended, and its locks are free."),
        (status = 404, description = "`unknown_owner`: it had ended before."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(super) async fn end(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    Bearer(secret): Bearer,
    of: OfOwner,
) -> Read<StatusCode> {
    let from = secret.asker.from;
    desk::end_owner(&state, &of.bucket, &OwnerKey { owner: of.owner, secret }).await?;
    let deed = Deed {
        who: Some(&caller.identity),
        what: "end owner",
        bucket: &of.bucket.bucket,
        name: Some(&of.owner),
    };
    audit::note(from, &deed, None, Some("by its secret"));
    Ok(StatusCode::NO_CONTENT)
}
