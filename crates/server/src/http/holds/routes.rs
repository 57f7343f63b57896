//! `locks/break`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use tracing::Instrument;

use super::bodies::{BrokenHolds, HoldsToBreak};
use super::calls;
use crate::http::problem::Problem;
use crate::http::request::asker::Asker;
use crate::http::request::body::JsonBody;
use crate::http::request::decode::ApiResult;
use crate::http::request::path::InBucket;
use crate::http::route::BASE;
use crate::state::AppState;

/// Break holds
///
/// Ends web locks, offline locks and claims for their holders, who learn that it was an operator, and the
/// reason. Each hold is named with its fencing token, so that its successor is never hit: a hold that has
/// ended is `gone`. Assignments are no holds: delete them. A server whose settings ask for a reason refuses
/// to break without one.
#[utoipa::path(
    post, context_path = BASE, path = "/locks/break", tag = "query", operation_id = "breakHolds", request_body = HoldsToBreak,
    responses(
        (status = 200, description = "None of the holds is there any more.", body = BrokenHolds),
        (status = 503, description = "`unavailable`: none is broken."),
    ),
)]
pub(crate) async fn break_holds(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    JsonBody(holds): JsonBody<HoldsToBreak>,
) -> ApiResult<Json<BrokenHolds>> {
    // A caller that goes away does not end what has begun.
    let broken = tokio::spawn(calls::break_holds(state, bucket, holds, asker).in_current_span()).await;
    broken.unwrap_or_else(|_| Err(Problem::answer_lost("the server failed", true))).map(Json)
}
