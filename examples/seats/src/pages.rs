//! How it looks: HTML from the server, which works without scripts. With them, `live.js` fetches the page
//! anew after every change, and takes over whatever has another `data-version`.

mod hall;
mod seat;

use std::fmt;
use std::time::{Duration, SystemTime};

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

pub(crate) use self::hall::HallPage;
pub(crate) use self::seat::{Ending, SeatPage};

/// A page about something that cannot be done.
#[derive(Debug, Template)]
#[template(path = "trouble.html")]
pub(crate) struct TroublePage<'a> {
    pub(crate) title: &'a str,
    pub(crate) advice: &'a str,
    pub(crate) href: &'a str,
    pub(crate) label: &'a str,
}

/// The page as an answer.
pub(crate) fn show(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Time that is left, as `2:05`; a script counts it down.
#[derive(Clone, Copy, Debug)]
struct Countdown(Duration);

impl Countdown {
    fn new(until: SystemTime, now: SystemTime) -> Self {
        Self(until.duration_since(now).unwrap_or_default())
    }
}

impl fmt::Display for Countdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, seconds) = (self.0.as_millis(), self.0.as_millis().div_ceil(1000));
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        write!(f, r#"<span class="countdown" data-left-ms="{ms}">{minutes}:{seconds:02}</span>"#)
    }
}

impl askama::filters::HtmlSafe for Countdown {}

/// As `2 minutes` or `90 seconds`.
fn in_words(length: Duration) -> String {
    match length.as_secs() {
        1 => "1 second".to_owned(),
        60 => "1 minute".to_owned(),
        seconds if seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

fn millis(at: SystemTime) -> u128 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis()
}
