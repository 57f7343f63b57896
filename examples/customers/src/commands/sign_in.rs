//! The sign-in. There are no passwords: it is a sample of locks.

use askama::Template;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::{edit, form_of};
use crate::App;
use crate::pages::{Frame, page};
use crate::trouble::Trouble;

#[derive(Debug, Default, Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: Frame,
    user: String,
    next: String,
    fault: Option<String>,
}

/// Where to go on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Next {
    next: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SignIn {
    user: String,
    next: String,
    /// The customer whose form comes along, to be sent again to where it was to go.
    saves: Option<i64>,
}

pub(crate) async fn form(frame: Frame, Query(Next { next }): Query<Next>) -> Response {
    page(StatusCode::OK, &SignInPage { frame, next, ..SignInPage::default() })
}

/// Begins a session; one that was there is over. A form that was typed before its session had ended goes on
/// with it, to where it was sent at first.
pub(crate) async fn sign_in(State(app): State<App>, frame: Frame, bytes: Bytes) -> Result<Response, Trouble> {
    let SignIn { user, next, saves } = form_of(&bytes).await.unwrap_or_default();
    let user = user.trim();
    if let Some(fault) = fault(user) {
        let Some(id) = saves else {
            let form = SignInPage { frame, user: user.to_owned(), next, fault: Some(fault) };
            return Ok(page(StatusCode::UNPROCESSABLE_ENTITY, &form));
        };
        let typed = form_of(&bytes).await.unwrap_or_default();
        return Ok(edit::again_without_a_name(&app, frame, id, &typed, fault).await);
    }
    end(&frame).await;
    let session = app.sessions.open(user).await?;
    let cookie = AppendHeaders([(header::SET_COOKIE, session.cookie())]);
    let to = match saves {
        // 307: the browser sends the same form again.
        Some(id) => Redirect::temporary(&format!("/customers/{id}")),
        None if is_ours(&next) => Redirect::to(&next),
        None => Redirect::to("/customers"),
    };
    Ok((cookie, to).into_response())
}

/// Ends the session, and takes its cookie away: should the session still be there after a restart, as its end
/// could not be stored, no user comes back to it.
pub(crate) async fn sign_out(State(app): State<App>, frame: Frame) -> Response {
    end(&frame).await;
    let no_cookie = AppendHeaders([(header::SET_COOKIE, app.sessions.no_cookie())]);
    (no_cookie, Redirect::to("/sign-in")).into_response()
}

async fn end(frame: &Frame) {
    if let Some(session) = &frame.session {
        // Failures go to the handler of serious errors; the user is out all the same.
        let _ = session.end().await;
    }
}

fn fault(user: &str) -> Option<String> {
    match user.chars().count() {
        0 => Some("Enter a name: others are shown it while you edit.".to_owned()),
        1..=60 => None,
        count => Some(format!("Shorten this to 60 characters: it has {count}.")),
    }
}

/// A path of this site: anything else could lead a user elsewhere.
fn is_ours(next: &str) -> bool {
    let mut bytes = next.bytes();
    bytes.next() == Some(b'/')
        && !matches!(bytes.next(), Some(b'/' | b'\\'))
        && next.bytes().all(|byte| byte > b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_on_within_this_site_only() {
        assert!(["/", "/customers/1/edit", "/customers/1/merge?with=2"].into_iter().all(is_ours));
        let elsewhere =
            ["", "//evil.example", "/\\evil.example", "https://evil.example", "customers", "/a\r\nb"];
        assert!(!elsewhere.into_iter().any(is_ours));
    }
}
