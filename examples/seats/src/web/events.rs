//! Live updates: a server-sent event after each change of the hall, upon which the page fetches itself anew.

use std::convert::Infallible;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};

use super::App;

/// An event names no change, so that all visitors may see it. Browsers ignore an event without any data.
pub(super) async fn events(State(app): State<App>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut changed = app.office.changed();
    // The first one at once: the page may be older than this connection.
    changed.mark_changed();
    let events = stream::unfold((changed, app.stopping), async |(mut changed, mut stopping)| {
        let goes_on = tokio::select! {
            change = changed.changed() => change.is_ok(),
            _ = stopping.wait_for(|stopping| *stopping) => false,
        };
        goes_on.then(|| (Ok(Event::default().event("change").data("hall")), (changed, stopping)))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}
