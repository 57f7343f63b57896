//! The body of a request: a JSON object of bounded size.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use tokio::time::timeout;

use super::problem::{Code, Problem};
use super::read::{FromMembers, Read, body};
use crate::config::HTTP_BODY_BYTES;
use crate::limits::Refused;
use crate::server::Server;

/// What the body says.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: FromMembers> FromRequest<Arc<Server>> for JsonBody<T> {
    type Rejection = Box<Problem>;

    async fn from_request(request: Request, _: &Arc<Server>) -> Read<Self> {
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
        body(&collect(request.into_body()).await?).map(Self)
    }
}

/// The layer around everything that reads all of a request first: were an answer given before, the connection would have to be closed
/// under a client that is about to use it again.
///
/// Counts what is refused, too.
pub(crate) async fn whole(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let response = read_whole(&server, request, next).await;
    if let Some(refused) = response.extensions().get::<Refused>() {
        server.bounds.refuse(*refused);
    }
    response
}

async fn read_whole(server: &Server, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let patience = server.bounds.settings().body_timeout;
    let late = || {
        let rule = format!("there within {}", humantime::format_duration(patience));
        Problem::field(Code::RequestTimeout, "body", rule)
    };
    let read = timeout(patience, collect(body)).await.unwrap_or_else(|_| Err(late()));
    match read {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(problem) => {
            let mut response = problem.into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    }
}

/// All of a body, unless it is too long.
pub(super) async fn collect(body: Body) -> Read<Bytes> {
    let mut chunks = body.into_data_stream();
    let broken = |error| Problem::new(Code::BadRequest, format!("the body broke off: {error}"));
    // Nearly always there is only one, which then need not be copied.
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    while let Some(chunk) = chunks.try_next().await.map_err(broken)? {
        if first.len().max(whole.len()) + chunk.len() > HTTP_BODY_BYTES {
            let rule = format!("at most {HTTP_BODY_BYTES} bytes");
            return Err(Problem::field(Code::TooLarge, "body", rule));
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
        assert_eq!(collect(whole).await.unwrap_err().code, Code::TooLarge);
        let chunk = || Ok::<_, std::io::Error>(vec![b' '; HTTP_BODY_BYTES / 2]);
        let three = Body::from_stream(futures_util::stream::iter([chunk(), chunk(), chunk()]));
        assert_eq!(collect(three).await.unwrap_err().code, Code::TooLarge);
        let two = Body::from_stream(futures_util::stream::iter([chunk(), chunk()]));
        assert_eq!(collect(two).await.unwrap().len(), HTTP_BODY_BYTES);
    }
}
