//! `Idempotency-Key`: a POST or DELETE that is sent again, as its answer was lost, is answered again and not
//! carried out again.
//!
//! A key stands for one request of one caller: tenant, bucket, caller, method, path and the owner's secret
//! distinguish keys, and query string and body must be the same. Only successes are remembered. A refusal has
//! changed nothing, so that the same request may be carried out anew, and get the answer of that time.
//!
//! `outcome_unknown` is no final answer either, and the key is free after it. The same request is carried out
//! anew by the server that serves then, most often the next server, which knows no keys; it finds what the
//! first one has done in the durable state. A lock is held already, a claim or an owner is the same one, as
//! its number rests on the key, an assignment is the same, and what was released by token, undone or ended is
//! gone. Only an unassignment or a release without tokens may take another assignment or lock than the first
//! one meant, so that no time to send it again is ever given.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use super::access::{Caller, charge_more};
use super::problem::{Code, Problem, advise_with_key};
use super::request::body::collect;
use super::request::headers::idempotency_key;
use super::route::Route;
use crate::bounds::HTTP_BODY_BYTES;
use crate::idempotency::{Begin, StoredAnswer, digest};
use crate::state::AppState;

/// The header of an answer that was given before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Answers a POST or DELETE that has a key. Faults of a request are left to the handler to report, in its
/// order.
pub(super) async fn once(state: &Arc<AppState>, request: Request, route: &'static Route) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, state).await;
    let (Ok(Caller { identity, bucket: Some(bucket), .. }), Ok(Some(key))) =
        (caller, idempotency_key(&parts.headers))
    else {
        return route.answer(state, Request::from_parts(parts, body)).await;
    };
    let key = key.to_owned();
    let body = match collect(body, HTTP_BODY_BYTES).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    // The price of the comparison with other requests: the frames of the WebSocket count by the KiB, too.
    if let Err(problem) = charge_more(state, bucket.tenant(), body.len() >> 10) {
        return problem.into_response();
    }
    let (method, path) = (parts.method.as_str().as_bytes(), parts.uri.path().as_bytes());
    let secret = bytes_of(&parts.headers, &header::AUTHORIZATION);
    let life = state.houses.life_of(&bucket);
    let id = digest(&[key.as_bytes(), identity.caller().as_bytes(), method, path, secret, life.as_bytes()]);
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let content = digest(&[query, &body, bytes_of(&parts.headers, &header::CONTENT_TYPE)]);
    match state.idempotency.begin(&bucket, id, content) {
        Begin::First(pending) => {
            let request = Request::from_parts(parts, Body::from(body));
            // The request is carried out to its end, even if the caller goes away meanwhile: the caller will
            // come again for the answer.
            let answering = route.answer(state, request);
            let work = async move {
                let kept = pending.keep(advise_with_key(answering.await)).await;
                kept.unwrap_or_else(|_| Problem::new(Code::Internal, "the answer broke off").into_response())
            };
            tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| {
                tracing::error!(%error, "a request failed");
                Problem::new(Code::Internal, "the server failed").into_response()
            })
        }
        Begin::Again(answer) => repeat(&answer),
        Begin::Mismatch => Problem::idempotency_mismatch().into_response(),
        Begin::InFlight => {
            let why = "the request with the same Idempotency-Key has not been answered yet";
            Problem::new(Code::ConflictInFlight, why).retry_after(AGAIN).into_response()
        }
        Begin::Full => {
            let why = "too many requests with an Idempotency-Key are remembered or under way";
            Problem::new(Code::QuotaExceeded, why).retry_after(AGAIN).into_response()
        }
    }
}

/// About the time after which to repeat a request that is under way or does not fit.
const AGAIN: Duration = Duration::from_secs(1);

/// Gives an answer once more.
fn repeat(answer: &StoredAnswer) -> Response {
    let mut response = (answer.status, answer.headers.clone(), answer.body.clone()).into_response();
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

fn bytes_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h [u8] {
    headers.get(name).map_or(b"", HeaderValue::as_bytes)
}
