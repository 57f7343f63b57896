//! `GET /metrics`, for operators of the server.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::access::Caller;
use super::problem::{Code, Problem};
use super::request::decode::ApiResult;
use crate::auth::DEFAULT_TENANT;
use crate::metrics;
use crate::settings::Permission;
use crate::state::AppState;

/// The metrics of all tenants, which an operator of one of the others is not to see.
pub(super) async fn show(State(state): State<Arc<AppState>>, caller: Caller) -> ApiResult<Response> {
    if caller.identity.tenant != DEFAULT_TENANT {
        let place = format!("the tenant {DEFAULT_TENANT:?}");
        return Err(Problem::forbidden(Permission::Operate, &place));
    }
    let off =
        || Problem::new(Code::NotFound, "nothing is counted here: the setting metrics.enabled is false");
    metrics::answer(&state).ok_or_else(off)
}
