//! `claims`: reserve now, prepare, make it final only if it is still mine.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};

use super::bodies::{ClaimKey, ClaimState, Claimed, NewClaim, ReleasedClaim, Renewed};
use super::calls;
use crate::http::access::Caller;
use crate::http::dto::{Assignment, JsonName};
use crate::http::problem::{Code, Problem};
use crate::http::request::asker::Asker;
use crate::http::request::body::JsonBody;
use crate::http::request::constraints::RESOURCE;
use crate::http::request::decode::ApiResult;
use crate::http::request::headers::GivenKey;
use crate::http::request::parameters::Parameters;
use crate::http::request::path::InBucket;
use crate::http::request::schema::GetParameters;
use crate::http::route::BASE;
use crate::state::AppState;

/// Claim a resource
///
/// A reservation that ends by itself, unless it is renewed or made final. With an `Idempotency-Key`, claiming
/// again is answered to the same caller with the same claim while it lives, even over a restart of the
/// server.
#[utoipa::path(
    post, context_path = BASE, path = "/claims", tag = "claims", operation_id = "claim", request_body = NewClaim,
    responses(
        (status = 201, description = "The resource is claimed.", body = Claimed),
        (status = 409, description = "`claimed` by somebody else, `busy` in another way, `already_assigned`, or \
            `conflict_in_flight`. `holders` tells who, never by which token."),
        (status = 503, description = "`recovering`, `unavailable`, `closing`."),
    ),
)]
pub(crate) async fn claim(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    InBucket(bucket): InBucket,
    GivenKey(key): GivenKey,
    JsonBody(mut new): JsonBody<NewClaim>,
) -> ApiResult<(StatusCode, Json<Claimed>)> {
    let found_by = match (new.key.take(), key) {
        (Some(key), _) => Some(calls::FoundBy::Secret(key)),
        // An open server does not tell its callers apart.
        (None, Some(key)) if state.authority().is_open() => Some(calls::FoundBy::Secret(key)),
        (None, Some(key)) => {
            Some(calls::FoundBy::CallersKey { caller: caller.identity.caller().to_owned(), key })
        }
        (None, None) => None,
    };
    let claimed = calls::claim(&state, &bucket, new, found_by).await?;
    Ok((StatusCode::CREATED, Json(claimed)))
}

/// Show a claim
///
/// Who claims a resource, and until when; never the token.
#[utoipa::path(
    get, context_path = BASE, path = "/claims", tag = "claims", operation_id = "getClaim", params(GetParameters),
    responses(
        (status = 200, description = "The current claim.", body = ClaimState),
        (status = 404, description = "`not_found`: the resource is not claimed."),
    ),
)]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> ApiResult<Json<ClaimState>> {
    let resource = Parameters::parse(&uri)?.field("resource")?.name(&RESOURCE)?;
    let claim = calls::current_claim(&state, &bucket, resource.as_name()).await?;
    claim.map(Json).ok_or_else(|| Problem::new(Code::NotFound, "the resource is not claimed"))
}

/// Renew a claim
///
/// Its TTL runs anew from now.
#[utoipa::path(
    post, context_path = BASE, path = "/claims/renew", tag = "claims", operation_id = "renewClaim", request_body = ClaimKey,
    responses(
        (status = 200, description = "The claim lasts longer.", body = Renewed),
        (status = 409, description = "`claim_lost`: another claim stands, or was made final. Or `conflict_in_flight`."),
        (status = 410, description = "`claim_expired`: no claim stands, nor was another made final."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(crate) async fn renew(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    JsonBody(key): JsonBody<ClaimKey>,
) -> ApiResult<Json<Renewed>> {
    calls::renew(&state, &bucket, &key, &asker).await.map(Json)
}

/// Release a claim
///
/// The resource is free at once. Releasing again is `claim_expired`.
#[utoipa::path(
    post, context_path = BASE, path = "/claims/release", tag = "claims", operation_id = "releaseClaim", request_body = ClaimKey,
    responses(
        (status = 200, description = "The claim is over.", body = ReleasedClaim),
        (status = 409, description = "`claim_lost`: another claim stands, or was made final. Or `conflict_in_flight`."),
        (status = 410, description = "`claim_expired`: no claim stands, nor was another made final."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(crate) async fn release(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    JsonBody(key): JsonBody<ClaimKey>,
) -> ApiResult<Json<ReleasedClaim>> {
    calls::release(&state, &bucket, &key, &asker).await?;
    Ok(Json(ReleasedClaim { resource: JsonName(key.resource), released: true }))
}

/// Make a claim final
///
/// Succeeds only if, at that moment, the claim stands. Finalizing again is answered the same, until the
/// assignment is deleted.
#[utoipa::path(
    post, context_path = BASE, path = "/claims/finalize", tag = "claims", operation_id = "finalizeClaim", request_body = ClaimKey,
    responses(
        (status = 200, description = "The resource is assigned for good.", body = Assignment),
        (status = 409, description = "`claim_lost`: another claim stands, which is not touched, or was made final. Or `conflict_in_flight`."),
        (status = 410, description = "`claim_expired`: no claim stands, nor was another made final."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(crate) async fn finalize(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    JsonBody(key): JsonBody<ClaimKey>,
) -> ApiResult<Json<Assignment>> {
    calls::finalize(&state, &bucket, &key, &asker).await.map(Json)
}
