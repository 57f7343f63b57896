//! "Tell me when it is free": who has a customer, as it changes, for the page of a user who was refused.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::StreamExt;
use lockhouse::core::{EventKind, OwnerId};
use lockhouse::implicit::WebSession;
use lockhouse::{EventFilter, EventItem, EventsFrom, FencingToken, HolderKind};

use crate::App;
use crate::customer::customers;
use crate::when::When;

/// The others who have it, by their fencing tokens.
#[derive(Debug)]
struct Holders {
    /// The owner of the session that looks: its own locks are not in its way.
    me: Option<OwnerId>,
    others: BTreeMap<FencingToken, (String, When)>,
}

impl Holders {
    fn follow(&mut self, item: EventItem) {
        match item {
            EventItem::State(_, state) => {
                let held = state.held.into_iter().filter(|lock| match lock.kind {
                    HolderKind::Offline(owner) => self.me != Some(owner),
                    _ => true,
                });
                let held = held.filter_map(|lock| {
                    let token = lock.fencing_token()?;
                    Some((token, (lock.client_id, When::of(lock.since))))
                });
                self.others = held.collect();
            }
            EventItem::Event(event) => match (event.kind, event.fencing_token) {
                (EventKind::Granted, Some(token)) if event.owner.is_none() || event.owner != self.me => {
                    self.others.insert(token, (event.client_id.into(), When::of(event.at)));
                }
                (EventKind::Ended(_), Some(token)) => _ = self.others.remove(&token),
                _ => {}
            },
            // The state comes next.
            EventItem::Gap => {}
        }
    }

    fn message(&self) -> Event {
        match self.others.values().next() {
            Some((user, since)) => {
                Event::default().event("taken").data(format!("{user} has it since {}.", since.clock))
            }
            None => Event::default().event("free").data("It is free now."),
        }
    }
}

/// A stream of server-sent events: `taken` with the user, or `free`.
pub(crate) async fn free(
    State(app): State<App>,
    Extension(session): Extension<Option<WebSession>>,
    Path(id): Path<i64>,
) -> impl IntoResponse {
    let name = Some(customers().record(id).name().to_buf());
    let filter = EventFilter { name, ..EventFilter::default() };
    let events = app.bucket().events(EventsFrom::State, filter).into_stream();
    let me = session.map(|session| session.owner().id());
    let messages = events.scan(Holders { me, others: BTreeMap::new() }, |holders, item| {
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
