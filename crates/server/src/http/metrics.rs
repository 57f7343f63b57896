//! `GET /metrics`, for operators of the server.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use lockhouse::MemoryReservation;

use super::access::Caller;
use super::problem::{Code, Problem};
use super::query::snapshot::reserve_answer;
use super::request::decode::ApiResult;
use crate::auth::DEFAULT_TENANT;
use crate::metrics;
use crate::settings::Permission;
use crate::state::AppState;

/// A text with its memory until it is written.
struct Answer {
    text: Bytes,
    #[expect(dead_code, reason = "kept for its end")]
    memory: MemoryReservation,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// The metrics of all tenants, which an operator of one of the others is not to see. The text counts as an
/// answer to the tenant until the caller has taken it, although several may share it.
pub(super) async fn show(State(state): State<Arc<AppState>>, caller: Caller) -> ApiResult<Response> {
    if caller.identity.tenant != DEFAULT_TENANT {
        let place = format!("the tenant {DEFAULT_TENANT:?}");
        return Err(Problem::forbidden(Permission::Operate, &place));
    }
    let off =
        || Problem::new(Code::NotFound, "nothing is counted here: the setting metrics.enabled is false");
    let text = state.metrics.next(&state).await.ok_or_else(off)?;
    let memory = reserve_answer(&state, DEFAULT_TENANT, text.len())?;
    Ok(metrics::answer(Bytes::from_owner(Answer { text, memory })))
}
