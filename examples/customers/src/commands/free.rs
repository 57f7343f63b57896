//! "Tell me when it is free": who has a customer, as it changes, for the page of a user who was refused.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::StreamExt;
use lockhouse::core::EventKind;
use lockhouse::{EventFilter, EventItem, EventsFrom, FencingToken};

use crate::App;
use crate::customer::customers;
use crate::when::When;

/// Those who have it, by their fencing tokens.
#[derive(Debug, Default)]
struct Holders(BTreeMap<FencingToken, (String, When)>);

impl Holders {
    fn follow(&mut self, item: EventItem) {
        match item {
            EventItem::State(_, state) => {
                let held = state.held.into_iter();
                let held = held.filter_map(|lock| {
                    let token = lock.fencing_token()?;
                    Some((token, (lock.client_id, When::of(lock.since))))
                });
                self.0 = held.collect();
            }
            EventItem::Event(event) => match (event.kind, event.fencing_token) {
                (EventKind::Granted, Some(token)) => {
                    self.0.insert(token, (event.client_id.into(), When::of(event.at)));
                }
                (EventKind::Ended(_), Some(token)) => _ = self.0.remove(&token),
                _ => {}
            },
            // The state comes next.
            EventItem::Gap => {}
        }
    }

    fn message(&self) -> Event {
        match self.0.values().next() {
            Some((user, since)) => {
                Event::default().event("taken").data(format!("{user} has it since {}.", since.clock))
            }
            None => Event::default().event("free").data("It is free now."),
        }
    }
}

/// A stream of server-sent events: `taken` with the user, or `free`.
pub(crate) async fn free(State(app): State<App>, Path(id): Path<i64>) -> impl IntoResponse {
    let name = Some(customers().record(id).name().to_buf());
    let filter = EventFilter { name, ..EventFilter::default() };
    let events = app.bucket().events(EventsFrom::State, filter).into_stream();
    let messages = events.scan(Holders::default(), |holders, item| {
        // A state that cannot be read at the moment is read again with the next connection.
        let message = item.ok().map(|item| {
            holders.follow(item);
            Ok::<_, Infallible>(holders.message())
        });
        std::future::ready(message)
    });
    Sse::new(messages.take_until(app.stopped())).keep_alive(KeepAlive::default())
}

pub(crate) async fn script() -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8"))];
    (headers, include_str!("../free.js"))
}
