//! The body of a request: a JSON object of bounded size.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{TryStreamExt, poll};
use tokio::time::timeout;

use super::decode::{ApiResult, FromMembers, body};
use crate::bounds::{HTTP_BODY_BYTES, SMALL_BODY_BYTES, STRAY_BODY_BYTES};
use crate::http::problem::{Code, Problem};
use crate::http::route::is_api;
use crate::limits::{ConnectionPermit, Network, Permit, Refused};
use crate::state::AppState;

/// The content of the body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: FromMembers> FromRequest<Arc<AppState>> for JsonBody<T> {
    type Rejection = Box<Problem>;

    async fn from_request(request: Request, _: &Arc<AppState>) -> ApiResult<Self> {
        if !is_json(request.headers()) {
            let given = request.headers().get(header::CONTENT_TYPE);
            let given = given.map_or("absent".into(), |value| String::from_utf8_lossy(value.as_bytes()));
            return Err(Problem::rule(
                Code::UnsupportedMediaType,
                "Content-Type",
                &given,
                "application/json",
            ));
        }
        body(&collect(request.into_body(), HTTP_BODY_BYTES).await?).map(Self)
    }
}

/// The body of a call that has none, which is empty, an empty object or `null`: what stands in one would be
/// ignored, as a `ttlMs` of a heartbeat.
pub(crate) struct NoBody;

impl FromRequest<Arc<AppState>> for NoBody {
    type Rejection = Box<Problem>;

    async fn from_request(request: Request, _: &Arc<AppState>) -> ApiResult<Self> {
        let body = collect(request.into_body(), HTTP_BODY_BYTES).await?;
        let body = body.trim_ascii();
        let inner = body.strip_prefix(b"{").and_then(|body| body.strip_suffix(b"}"));
        let is_empty =
            matches!(body, b"" | b"null") || inner.is_some_and(|inner| inner.trim_ascii().is_empty());
        if is_empty { Ok(Self) } else { Err(nothing_expected()) }
    }
}

pub(crate) fn nothing_expected() -> Box<Problem> {
    Problem::field(Code::Invalid, "body", "empty, as this call takes nothing from it")
}

/// Reads all of a request before it is answered: were an answer given before, the connection would have to be
/// closed under a client that is about to use it again. The caller shows only afterwards, so that the bytes
/// in memory meanwhile are bounded.
///
/// Refused requests count, too.
pub(crate) async fn buffer_request<F>(
    state: &AppState,
    request: Request,
    answer: impl FnOnce(Request) -> F + Send,
) -> Response
where
    F: Future<Output = Response> + Send,
{
    let response = match buffer_body(state, request).await {
        Ok((request, place)) => {
            let response = answer(request).await;
            drop(place);
            response
        }
        Err(problem) => {
            let mut response = problem.into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    };
    if let Some(refused) = response.extensions().get::<Refused>() {
        state.limiter.refuse(*refused);
    }
    response
}

/// The request with all of its body, and the place that it has in memory if it needs one.
async fn buffer_body(
    state: &AppState,
    request: Request,
) -> ApiResult<(Request, Option<Permit<Option<Network>>>)> {
    if request.body().is_end_stream() {
        return Ok((request, None));
    }
    let (parts, body) = request.into_parts();
    let most = most_of(&parts.method, &parts.uri);
    let announced = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    if announced.is_some_and(|bytes| bytes > most) {
        return Err(too_large(most));
    }
    let patience = state.limiter.settings().body_timeout;
    let late = || {
        let rule = format!("there within {}", humantime::format_duration(patience));
        Problem::field(Code::RequestTimeout, "body", rule)
    };
    let mut reading = pin!(collect(body, most));
    // The body has nearly always come with the head; then no timer is needed, and the body is no longer than
    // the memory that a connection may use anyway.
    let (read, place) = match poll!(reading.as_mut()) {
        Poll::Ready(read) => (read, None),
        Poll::Pending => {
            let place = if announced.unwrap_or(most) > SMALL_BODY_BYTES {
                let from = parts.extensions.get::<ConnectionPermit>().map(|permit| permit.from);
                Some(state.limiter.await_body(from).ok_or_else(too_many)?)
            } else {
                None
            };
            (timeout(patience, reading).await.unwrap_or_else(|_| Err(late())), place)
        }
    };
    Ok((Request::from_parts(parts, Body::from(read?)), place))
}

/// How long the body of such a request may be.
fn most_of(method: &Method, uri: &Uri) -> usize {
    let may_have_one = is_api(uri) && matches!(*method, Method::POST | Method::DELETE);
    if may_have_one { HTTP_BODY_BYTES } else { STRAY_BODY_BYTES }
}

fn too_large(most: usize) -> Box<Problem> {
    Problem::field(Code::TooLarge, "body", format!("at most {most} bytes"))
}

fn too_many() -> Box<Problem> {
    let why = format!(
        "too many bodies of more than {SMALL_BODY_BYTES} bytes, or of unknown length, are waited for at once"
    );
    Problem::new(Code::Overloaded, why).retry_after(Duration::from_secs(1))
}

/// All of a body, unless it is too long.
pub(crate) async fn collect(body: Body, most: usize) -> ApiResult<Bytes> {
    let mut chunks = body.into_data_stream();
    let broken = |error| Problem::new(Code::BadRequest, format!("the body broke off: {error}"));
    // There is nearly always only one piece, which then need not be copied.
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    while let Some(chunk) = chunks.try_next().await.map_err(broken)? {
        if first.len().max(whole.len()) + chunk.len() > most {
            return Err(too_large(most));
        }
        if first.is_empty() {
            first = chunk;
            continue;
        }
        if whole.is_empty() {
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(if whole.is_empty() { first } else { whole.into() })
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_read() {
        let with =
            |value: &str| is_json(&[(header::CONTENT_TYPE, value.parse().unwrap())].into_iter().collect());
        assert!(with("application/json") && with("Application/JSON; charset=utf-8"));
        assert!(!with("text/plain") && !with("application/jsonx") && !with(""));
        assert!(!is_json(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_body_over_the_bound_is_refused_however_it_comes() {
        let whole = Body::from(vec![b' '; HTTP_BODY_BYTES + 1]);
        assert_eq!(collect(whole, HTTP_BODY_BYTES).await.unwrap_err().code, Code::TooLarge);
        let chunk = || Ok::<_, std::io::Error>(vec![b' '; HTTP_BODY_BYTES / 2]);
        let three = Body::from_stream(futures_util::stream::iter([chunk(), chunk(), chunk()]));
        assert_eq!(collect(three, HTTP_BODY_BYTES).await.unwrap_err().code, Code::TooLarge);
        let two = Body::from_stream(futures_util::stream::iter([chunk(), chunk()]));
        assert_eq!(collect(two, HTTP_BODY_BYTES).await.unwrap().len(), HTTP_BODY_BYTES);
    }
}
