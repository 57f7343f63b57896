//! `owners`: sessions and business transactions, which hold offline locks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, Uri, header};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::bodies::{Beat, ListedOwners, NewOwner, OpenedOwner, OwnerState, OwnersQuestion};
use super::calls;
use crate::audit;
use crate::audit::AuditEvent;
use crate::http::access::Caller;
use crate::http::calls::OwnerKey;
use crate::http::dto::JsonAnswer;
use crate::http::request::asker::Bearer;
use crate::http::request::body::{JsonBody, NoBody};
use crate::http::request::constraints::{LABEL, OWNER, PAGE};
use crate::http::request::decode::ApiResult;
use crate::http::request::headers::GivenKey;
use crate::http::request::parameters::Parameters;
use crate::http::request::path::{InBucket, OfOwner};
use crate::http::request::schema::{RuleSchema, parameter};
use crate::http::route::BASE;
use crate::state::AppState;

/// Begin an owner
///
/// An owner stands for a session or a business transaction. Nothing is locked yet. With an `Idempotency-Key`,
/// opening again is answered to the same caller with the same owner while it lives, even over a restart of
/// the server.
#[utoipa::path(
    post, context_path = BASE, path = "/owners", tag = "owners", operation_id = "openOwner", request_body = NewOwner,
    responses(
        (status = 201, description = "The owner lives.", body = OpenedOwner,
            headers(("Location" = String, description = "Where it is, relative to the URL of the request."))),
        (status = 503, description = "`unavailable`, `closing`."),
    ),
)]
pub(crate) async fn open(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    InBucket(bucket): InBucket,
    GivenKey(key): GivenKey,
    JsonBody(new): JsonBody<NewOwner>,
) -> ApiResult<(StatusCode, [(HeaderName, String); 1], Json<OpenedOwner>)> {
    let found_by = key.as_deref().map(|key| (caller.identity.caller(), key));
    let opened = calls::open_owner(&state, &bucket, &new, found_by).await?;
    // Relative to the path of the request, which a proxy may have shortened.
    let location = format!("owners/{}", opened.owner);
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
pub(crate) async fn heartbeat(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    of: OfOwner,
    _: NoBody,
) -> ApiResult<Json<Beat>> {
    calls::heartbeat(&state, &of.bucket, &OwnerKey { owner: of.owner, secret }).await.map(Json)
}

/// Show an owner and its locks
///
/// Its TTL runs anew from now, as after each of its calls.
#[utoipa::path(
    get, context_path = BASE, path = "/owners/{owner}", tag = "owners", operation_id = "getOwner", security(("ownerSecret" = [])),
    responses(
        (status = 200, description = "The owner and what it holds.", body = OwnerState),
        (status = 404, description = "`unknown_owner`: it has ended."),
    ),
)]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    of: OfOwner,
) -> ApiResult<JsonAnswer> {
    calls::owner(&state, &of.bucket, &OwnerKey { owner: of.owner, secret }).await
}

struct OwnersParameters;

impl IntoParams for OwnersParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let limit = format!("How many owners a page has at most; {} without it.", PAGE.example);
        vec![
            parameter("label", LABEL.schema(), "Only owners that are called so."),
            parameter("limit", PAGE.schema(), &limit),
            parameter("cursor", OWNER.schema(), "The `next` of the page before; absent for the first page."),
        ]
    }
}

/// List the owners
///
/// The oldest first. To look is no activity of theirs. A page may have fewer owners than its limit, or none,
/// and still have a `next`: one call looks at 10,000 owners at most.
#[utoipa::path(
    get, context_path = BASE, path = "/owners", tag = "query", operation_id = "listOwners", params(OwnersParameters),
    responses((status = 200, description = "A page of owners, the oldest first.", body = ListedOwners)),
)]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> ApiResult<JsonAnswer> {
    let asked = OwnersQuestion::read(&Parameters::parse(&uri)?)?;
    calls::owners(&state, &bucket, &asked).await
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
pub(crate) async fn end(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    Bearer(secret): Bearer,
    of: OfOwner,
    _: NoBody,
) -> ApiResult<StatusCode> {
    let from = secret.asker.from;
    calls::end_owner(&state, &of.bucket, &OwnerKey { owner: of.owner, secret }).await?;
    let event = AuditEvent {
        who: Some(&caller.identity),
        what: "end owner",
        bucket: &of.bucket.bucket,
        name: Some(&of.owner),
    };
    audit::note(from, &event, None, Some("by its secret"));
    Ok(StatusCode::NO_CONTENT)
}
