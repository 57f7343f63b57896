//! The answers to a visitor when something cannot be done, and the advice.

use std::fmt;
use std::io::{self, Write};

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{AppendHeaders, IntoResponse, Response};
use lockhouse::{ClaimError, StoreError};

use crate::hall::{NoSuchSeat, Seat};
use crate::office::OfficeError;
use crate::pages::{TroublePage, show};

/// A page with the trouble and the advice.
#[derive(Debug)]
pub(super) struct Trouble {
    status: StatusCode,
    title: String,
    advice: String,
    way_out: (String, &'static str),
}

impl Trouble {
    fn new(status: StatusCode, title: impl Into<String>, advice: impl Into<String>) -> Self {
        let way_out = ("/".to_owned(), "To the hall");
        Self { status, title: title.into(), advice: advice.into(), way_out }
    }

    fn at(mut self, seat: Seat) -> Self {
        self.way_out = (format!("/seats/{seat}"), "Back to the seat");
        self
    }

    pub(super) fn no_such_page() -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is no such page", "Choose your seat in the hall.")
    }

    pub(super) fn not_a_page() -> Self {
        let advice = "This address belongs to a button, and cannot be opened. Press the button on the page.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "This is no page", advice)
    }

    pub(super) fn from_elsewhere() -> Self {
        let advice = "Another site has tried to press a button for you. Nothing has happened. Use the buttons on our own pages.";
        Self::new(StatusCode::FORBIDDEN, "That did not come from here", advice)
    }

    pub(super) fn not_yours(seat: Seat) -> Self {
        let advice = "This browser has no claim on it. Choose the seat first; if you have done that in another browser, go on there.";
        Self::new(StatusCode::FORBIDDEN, format!("{seat} is not held for you"), advice).at(seat)
    }

    pub(super) fn no_name(longest: usize) -> Self {
        let advice =
            format!("It may have 1 to {longest} characters. Others see it on the seats that you hold.");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Please tell us your name", advice)
    }

    pub(super) fn held_too_long(seat: Seat) -> Self {
        let advice =
            "You have held it for long, and others wait. Pay before the time is over, or give the seat back.";
        Self::new(StatusCode::CONFLICT, format!("{seat} cannot be held longer"), advice).at(seat)
    }

    pub(super) fn not_paid(seat: Seat) -> Self {
        let advice = "Your bank has not been asked for anything, so that it cannot answer. Pay first.";
        Self::new(StatusCode::CONFLICT, format!("{seat} is not paid"), advice).at(seat)
    }

    /// The cause is for the operator of the application, and none of it is secret.
    pub(super) fn out_of_order(cause: &dyn fmt::Display) -> Self {
        // Where stderr is gone, no message can be written.
        _ = writeln!(io::stderr(), "seats: {cause}");
        let advice = "What you have done so far is kept. Wait a moment and try again: nothing is booked or charged twice.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The box office is out of order", advice)
    }
}

impl From<NoSuchSeat> for Trouble {
    fn from(error: NoSuchSeat) -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is no such seat", format!("In this hall, {error}."))
    }
}

impl From<OfficeError> for Trouble {
    fn from(error: OfficeError) -> Self {
        match error {
            OfficeError::Claim(ClaimError::Quota(_) | ClaimError::Busy { .. }) => {
                let advice = "Too many ask at the same time. Wait a moment and try again.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "The box office is busy", advice)
            }
            error => Self::out_of_order(&error),
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::out_of_order(&error)
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let (href, label) = &self.way_out;
        let page = TroublePage { title: &self.title, advice: &self.advice, href, label };
        let retry = (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some([(RETRY_AFTER, "2")]);
        (self.status, retry.map(AppendHeaders), show(&page)).into_response()
    }
}
