//! The demo page, embedded in the binary.

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Only content of this server may run or be loaded, and no page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The built client for browsers.
const CLIENT: &str = include_str!("../../../../clients/js/dist/lockhouse.global.js");

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(|| async { file("text/html; charset=utf-8", include_str!("index.html")) }))
        .route("/demo.js", get(|| async { file("text/javascript; charset=utf-8", include_str!("demo.js")) }))
        .route("/demo.css", get(|| async { file("text/css; charset=utf-8", include_str!("demo.css")) }))
        .route("/lockhouse.global.js", get(|| async { file("text/javascript; charset=utf-8", CLIENT) }))
}

fn file(kind: &'static str, content: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, content).into_response()
}
