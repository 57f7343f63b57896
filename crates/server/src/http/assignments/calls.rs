//! The API's calls about assignments.

use lockhouse::{BucketKey, FencingToken, Name};

use crate::http::calls::bucket;
use crate::http::dto::Assignment;
use crate::http::problem::Problem;
use crate::http::request::decode::ApiResult;
use crate::state::AppState;

pub(crate) async fn assignment(
    state: &AppState,
    key: &BucketKey,
    resource: Name<'_>,
) -> ApiResult<Option<Assignment>> {
    let assignment = bucket(state, key)?.claims().assignment(resource).await?;
    Ok(assignment.map(Assignment::from))
}

pub(crate) async fn unassign(
    state: &AppState,
    key: &BucketKey,
    resource: Name<'_>,
    token: Option<u64>,
) -> ApiResult<bool> {
    let token = token.map(FencingToken::new);
    let unassigned = bucket(state, key)?.claims().unassign(resource, token).await;
    // Without a token a repeat may take back a later assignment.
    unassigned.map_err(|error| match token {
        Some(_) => error.into(),
        None => Box::<Problem>::from(error).never_again(),
    })
}
