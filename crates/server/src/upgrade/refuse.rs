//! A refusal in plain text.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Sends the reason, in one line.
pub(crate) fn refuse(status: StatusCode, why: String) -> Response {
    tracing::debug!(%status, why, "a request is refused");
    let headers =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, why + "\n").into_response()
}
