//! The explanation that the `type` of a problem refers to.

use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};

use super::answer::Problem;
use super::code::{Code, CodeInfo, KINDS};

/// `GET /problems/{code}`: what a `type` refers to.
pub(crate) async fn explain(uri: Uri) -> Response {
    let word = uri.path().strip_prefix("/problems/");
    let Some(kind) = KINDS.iter().find(|kind| word == Some(kind.word)) else {
        let words: Vec<&str> = KINDS.iter().map(|kind| kind.word).collect();
        return Problem::new(Code::NotFound, format!("the codes are {}", words.join(", "))).into_response();
    };
    let CodeInfo { word, status, title, advice, .. } = kind;
    let page = format!("# {title}\n\nCode `{word}`, status {}.\n\n{advice}\n", status.as_u16());
    ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response()
}
