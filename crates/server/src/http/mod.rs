//! The HTTP API: offline locks, claims, assignments and queries for programs that speak JSON over HTTP.
//!
//! ```text
//!   request ─▶ host, origin ─▶ CORS ─▶ Idempotency-Key ─▶ handler (rules, read) ─▶ desk ─▶ lockhouse
//!                  └──────────────────────┴─────────────────┴──▶ Problem (RFC 9457)
//! ```
//!
//! What a request must look like stands once, in `rules`: requests are read by it, and the OpenAPI document tells it.

mod backup;
mod body;
mod claims;
mod desk;
mod document;
mod entries;
mod idempotency;
mod locks;
mod owners;
mod parameters;
mod problem;
mod read;
mod rules;
mod views;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tower_http::cors::{AllowOrigin, CorsLayer};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::body::whole;
pub(crate) use self::idempotency::Answers;
use self::problem::{Code, Problem};
use crate::access::{check_host, check_origin};
use crate::server::Server;

/// Below this everything is told as JSON, problems included.
const BASE: &str = "/v1/buckets/{bucket}";

/// The routes of the API, and of what explains it.
pub(crate) fn routes(server: &Arc<Server>) -> Router<Arc<Server>> {
    let (api, document) = OpenApiRouter::new().nest(BASE, calls()).split_for_parts();
    let document: Arc<str> = document::complete(document).into();
    let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let document = move || async move { ([json.clone()], document.to_string()) };
    api.layer(from_fn_with_state(server.clone(), idempotency::layer))
        .route("/openapi.json", get(document))
        .route("/problems/{code}", get(problem::explain))
        .route("/v1/backup", post(backup::backup))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(cors(server))
        .layer(from_fn_with_state(server.clone(), guard))
        .layer(from_fn(never_sniff))
}

fn calls() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(owners::open))
        .routes(routes!(owners::show, owners::end))
        .routes(routes!(owners::heartbeat))
        .routes(routes!(locks::lock, locks::list))
        .routes(routes!(locks::release))
        .routes(routes!(locks::undo))
        .routes(routes!(claims::claim, claims::show))
        .routes(routes!(claims::renew))
        .routes(routes!(claims::release))
        .routes(routes!(claims::finalize))
        .routes(routes!(claims::assignment, claims::unassign))
        .routes(routes!(entries::query))
}

/// Whether what is at the path is told as JSON.
pub(crate) fn is_api(uri: &Uri) -> bool {
    uri.path().starts_with("/v1/")
}

/// The answer to a path of the API at which nothing is.
pub(crate) fn nowhere() -> Response {
    Problem::new(Code::NotFound, "nothing is at this path; /openapi.json lists what is").into_response()
}

async fn method_not_allowed(method: Method) -> Response {
    Problem::new(Code::MethodNotAllowed, format!("{method} is none of the methods that this path knows"))
        .into_response()
}

async fn guard(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let (headers, origins) = (request.headers(), &server.config.allowed_origins);
    match check_host(headers, origins).and_then(|()| check_origin(headers, origins)) {
        Ok(()) => next.run(request).await,
        Err(denied) => Problem::new(Code::Forbidden, denied.to_string()).into_response(),
    }
}

/// What is answered is not to be taken for anything else than it says it is.
async fn never_sniff(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// What a page of another origin may send and see. Whether the origin is admitted at all, `guard` decides, too.
fn cors(server: &Arc<Server>) -> CorsLayer {
    let allowed = server.clone();
    let is_allowed = move |_: &HeaderValue, parts: &axum::http::request::Parts| {
        check_origin(&parts.headers, &allowed.config.allowed_origins).is_ok()
    };
    let sent: [HeaderName; 3] = [header::AUTHORIZATION, header::CONTENT_TYPE, idempotency::KEY];
    let seen: [HeaderName; 4] =
        [header::LOCATION, header::RETRY_AFTER, header::WWW_AUTHENTICATE, idempotency::REPLAYED];
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(sent)
        .expose_headers(seen)
        .max_age(Duration::from_secs(600))
}
