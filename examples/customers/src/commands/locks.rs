//! The lock table, for all users to see.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::App;
use crate::holding::Holdings;
use crate::pages::{Frame, page};
use crate::trouble::Trouble;
use crate::when::span;

#[derive(Debug, Template)]
#[template(path = "locks.html")]
struct LocksPage {
    frame: Frame,
    holdings: Holdings,
    timeout: String,
}

pub(crate) async fn locks(State(app): State<App>, frame: Frame) -> Result<Response, Trouble> {
    let holdings = Holdings::now(&app.bucket(), frame.session.as_ref()).await?;
    Ok(page(StatusCode::OK, &LocksPage { frame, holdings, timeout: span(app.session_timeout) }))
}
