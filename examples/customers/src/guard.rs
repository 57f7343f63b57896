//! Keeps other sites from doing anything in a user's name. Such sites can neither press a button nor lock a
//! customer by leading a browser to it.

use axum::extract::Request;
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use crate::trouble::Trouble;

/// Lets no other site press our buttons.
pub(crate) async fn buttons(request: Request, next: Next) -> Response {
    if *request.method() == Method::POST && !is_ours(&request) {
        return Trouble::FromElsewhere.into_response();
    }
    next.run(request).await
}

/// For pages that lock the records that they show: requests from other sites, and requests that only ask
/// whether the page is there, are led to the page that locks nothing.
pub(crate) async fn locking_pages(request: Request, next: Next) -> Response {
    let locks_nothing = match *request.method() {
        Method::GET => !is_ours(&request),
        Method::HEAD => true,
        _ => false,
    };
    match request.uri().path().rsplit_once('/') {
        Some((customer, _)) if locks_nothing => Redirect::to(customer).into_response(),
        _ => next.run(request).await,
    }
}

/// Browsers send this header with every request; all other senders have no cookie but their own.
fn is_ours(request: &Request) -> bool {
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    matches!(site, None | Some(b"same-origin" | b"none"))
}
