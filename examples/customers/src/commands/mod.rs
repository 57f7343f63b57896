//! The commands, by what a user does.

pub(crate) mod call;
pub(crate) mod edit;
pub(crate) mod free;
pub(crate) mod list;
pub(crate) mod locks;
pub(crate) mod merge;
pub(crate) mod sign_in;

use axum::Form;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{Method, header};
use serde::de::DeserializeOwned;

/// Reads a form a second time, from its bytes.
async fn form_of<T: DeserializeOwned>(bytes: &Bytes) -> Option<T> {
    let mut request = Request::new(Body::from(bytes.clone()));
    *request.method_mut() = Method::POST;
    let kind = header::HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    Form::from_request(request, &()).await.ok().map(|Form(form)| form)
}
