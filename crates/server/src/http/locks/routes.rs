//! `locks`: offline locks, which business transactions hold over many requests.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::bodies::{HeldLock, HeldLocks, Locked, NewLocks, OldLocks, Released, Undone, UndoneLocks};
use super::calls;
use crate::http::calls::OwnerKey;
use crate::http::dto::JsonAnswer;
use crate::http::query::page::{Cut, cut_parameters};
use crate::http::request::asker::Bearer;
use crate::http::request::body::JsonBody;
use crate::http::request::constraints::{KIND, OWNER, PREFIX};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::path::{self, InBucket};
use crate::http::request::schema::{RuleSchema, parameter};
use crate::http::route::BASE;
use crate::state::AppState;

struct ListParameters;

impl IntoParams for ListParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let filters = [
            parameter("owner", OWNER.schema(), "Only the locks of this owner."),
            parameter("kind", KIND.schema(), "Only locks of records of this kind."),
            parameter("prefix", PREFIX.schema(), "Only resource names that begin with this."),
        ];
        filters.into_iter().chain(cut_parameters()).collect()
    }
}

/// Lock records
///
/// All of them or none, at once: nothing waits. What the owner holds already is kept, and the sole reader of
/// a record may become its writer.
#[utoipa::path(
    post, context_path = BASE, path = "/locks", tag = "locks", operation_id = "lock", request_body = NewLocks, security(("ownerSecret" = [])),
    responses(
        (status = 201, description = "The owner has all of them.", body = Locked),
        (status = 404, description = "`unknown_owner`: it has ended."),
        (status = 423, description = "`locked`: `conflicts` tells who has which of them. None was granted."),
        (status = 503, description = "`recovering`, `unavailable`, `closing`."),
    ),
)]
pub(crate) async fn lock(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    InBucket(bucket): InBucket,
    JsonBody(new): JsonBody<NewLocks>,
) -> ApiResult<(StatusCode, Json<Locked>)> {
    let key = OwnerKey { owner: new.owner, secret };
    let locked = calls::lock(&state, &bucket, &key, &new).await?;
    Ok((StatusCode::CREATED, Json(locked)))
}

/// Release locks
///
/// What the owner does not hold, or holds under another token, is passed over: releasing again by token does
/// no harm. Without tokens it also releases what another step of the owner has locked again since.
/// With `holding` nothing is given back unless the owner holds all of that: the end of a step that worked
/// under these locks.
#[utoipa::path(
    post, context_path = BASE, path = "/locks/release", tag = "locks", operation_id = "unlock", request_body = OldLocks,
    security(("ownerSecret" = [])),
    responses(
        (status = 200, description = "How many were given back.", body = Released),
        (status = 404, description = "`unknown_owner`: it has ended, and its locks are free."),
        (status = 409, description = "`lock_lost`: `lost` tells which of `holding` the owner does not hold. Nothing was given back."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(crate) async fn release(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    InBucket(bucket): InBucket,
    JsonBody(old): JsonBody<OldLocks>,
) -> ApiResult<Json<Released>> {
    let key = OwnerKey { owner: old.owner, secret };
    let released = calls::unlock(&state, &bucket, &key, &old).await?;
    Ok(Json(Released { released }))
}

/// Take locks back
///
/// What a failed step was granted: what it took freshly is released, what it upgraded is shared again. What
/// is no longer held under its token is passed over: taking back again does no harm.
#[utoipa::path(
    post, context_path = BASE, path = "/locks/undo", tag = "locks", operation_id = "undoLocks", request_body = UndoneLocks,
    security(("ownerSecret" = [])),
    responses(
        (status = 200, description = "How many were taken back.", body = Undone),
        (status = 404, description = "`unknown_owner`: it has ended, and its locks are free."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(crate) async fn undo(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    InBucket(bucket): InBucket,
    JsonBody(regretted): JsonBody<UndoneLocks>,
) -> ApiResult<Json<Undone>> {
    let key = OwnerKey { owner: regretted.owner, secret };
    let undone = calls::undo(&state, &bucket, &key, &regretted.locks).await?;
    Ok(Json(Undone { undone }))
}

/// List offline locks
///
/// Everybody who may connect to a bucket sees all of them.
#[utoipa::path(
    get, context_path = BASE, path = "/locks", tag = "locks", operation_id = "listLocks", params(ListParameters),
    responses((status = 200, description = "A page of locks, ordered by name.", body = HeldLocks)),
)]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> ApiResult<JsonAnswer> {
    let parameters = Parameters::parse(&uri)?;
    let owner = parameters.field("owner")?.if_any(path::owner)?.map(|owner| owner.to_string());
    let kind = parameters.field("kind")?.text_if_any(&KIND)?;
    let prefix = parameters.field("prefix")?.text_if_any(&PREFIX)?.unwrap_or_default();
    let cut = Cut::read(&parameters)?;
    let is_wanted = |lock: &HeldLock| {
        owner.as_ref().is_none_or(|owner| *owner == lock.owner)
            && kind.as_ref().is_none_or(|kind| *kind == lock.kind)
            && lock.name.0.as_name().as_wtf8().starts_with(prefix.as_bytes())
    };
    calls::list(&state, &bucket, &cut, is_wanted).await
}
