//! The events of a bucket, as its server sends them.
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use super::call::Call;
use super::client::{Answer, Http, Unanswered};
use crate::remote::session::backoff::Backoff;

/// Which events are meant, and from where on.
///
/// ```
/// use lockhouse::remote::http::EventQuery;
///
/// let query = EventQuery::new().name("customer/42").state();
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    filters: Vec<(&'static str, String)>,
    state: bool,
    last_id: Option<String>,
}

impl EventQuery {
    /// All events, from now on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only events of this name.
    pub fn name(self, name: &str) -> Self {
        self.with("name", name)
    }

    /// Only events of names that begin with this.
    pub fn prefix(self, prefix: &str) -> Self {
        self.with("prefix", prefix)
    }

    /// Only events of this discipline: `web`, `offline` or `claim`.
    pub fn kind(self, kind: &str) -> Self {
        self.with("kind", kind)
    }

    /// The present state comes first, unless there is an id.
    pub fn state(self) -> Self {
        Self { state: true, ..self }
    }

    /// Goes on behind this event. If what came after it is not kept any more, a `gap` comes first.
    pub fn after(self, id: &str) -> Self {
        Self { last_id: Some(id.to_owned()), ..self }
    }

    fn with(mut self, key: &'static str, value: &str) -> Self {
        self.filters.push((key, value.to_owned()));
        self
    }

    fn call(&self) -> Call {
        let call = Call::get(&["events"]);
        let call = self.filters.iter().fold(call, |call, (key, value)| call.with(key, value));
        match &self.last_id {
            Some(id) => call.with("lastEventId", id),
            None if self.state => call.with("state", "true"),
            None => call,
        }
    }
}

/// An event as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentEvent {
    /// Its place; empty of a `gap`, and of a `state` that goes on.
    pub id: String,
    /// `waiting`, `granted`, `ended`, `refused`, `assigned`, `unassigned`, `opened`, `closed`, `gap` or
    /// `state`.
    pub kind: String,
    /// A JSON object.
    pub data: String,
}

/// Why there are no events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventsError {
    /// Nothing came back.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// The server refuses them; the answer has the problem.
    #[error("the server refuses its events: status {}", .0.status)]
    Refused(Answer),
}

impl EventsError {
    /// Whether the same may be had later.
    fn is_temporary(&self) -> bool {
        match self {
            Self::Unanswered(Unanswered::Untrusted(_)) => false,
            Self::Unanswered(_) => true,
            Self::Refused(answer) => matches!(answer.status, 429 | 502..=504),
        }
    }
}

/// The events of one connection, until it ends.
#[derive(Debug)]
pub struct SentEvents {
    body: Incoming,
    text: Vec<u8>,
    ready: VecDeque<SentEvent>,
    last_id: Option<String>,
}

/// A server writes something at least each 15 s; a connection that is silent for this long is over.
const SILENCE: Duration = Duration::from_secs(40);

/// No line of events is longer.
const LINE_BYTES: usize = 16 << 20;

impl SentEvents {
    /// The next event; none once the connection has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<SentEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let frame = timeout(SILENCE, self.body.frame()).await.ok()??.ok()?;
            self.text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                self.take(&String::from_utf8_lossy(&block));
            }
            if self.text.len() > LINE_BYTES {
                return None;
            }
        }
    }

    /// The last id that came, also that of a comment: to go on behind.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    fn take(&mut self, block: &str) {
        let mut event = SentEvent { id: String::new(), kind: String::new(), data: String::new() };
        for line in block.lines() {
            match line.split_once(": ") {
                Some(("id", text)) => event.id = text.to_owned(),
                Some(("event", text)) => event.kind = text.to_owned(),
                Some(("data", text)) => event.data.push_str(text),
                _ => {}
            }
        }
        if !event.id.is_empty() {
            self.last_id = Some(event.id.clone());
        }
        if !event.data.is_empty() {
            self.ready.push_back(event);
        }
    }
}

impl Http {
    /// Opens the events of the bucket, over one connection.
    ///
    /// # Errors
    ///
    /// [`EventsError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn open_events(&self, query: &EventQuery) -> Result<SentEvents, EventsError> {
        let body = self.open(&query.call()).await?.map_err(EventsError::Refused)?;
        let (text, ready) = (Vec::new(), VecDeque::new());
        Ok(SentEvents { body, text, ready, last_id: query.last_id.clone() })
    }

    /// The events of the bucket, over as many connections as it takes: it goes on behind the last event by
    /// itself. Where events are missing a `gap` comes, and then the `state`. An error that time does not mend
    /// ends the stream.
    ///
    /// ```no_run
    /// use futures_util::{StreamExt, pin_mut};
    /// use lockhouse::remote::{connect, http::EventQuery};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let http = connect("http://127.0.0.1:7420").http()?;
    /// let events = http.events(EventQuery::new().name("customer/42").state());
    /// pin_mut!(events);
    /// while let Some(event) = events.next().await {
    ///     let event = event?;
    ///     println!("{} {}", event.kind, event.data);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn events(&self, query: EventQuery) -> impl Stream<Item = Result<SentEvent, EventsError>> + Send {
        let state = Some(Reconnecting { http: self.clone(), query, open: None, backoff: Backoff::default() });
        unfold(state, |state| async move {
            let mut state = state?;
            match state.next().await {
                Ok(event) => Some((Ok(event), Some(state))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

struct Reconnecting {
    http: Http,
    query: EventQuery,
    open: Option<SentEvents>,
    backoff: Backoff,
}

impl Reconnecting {
    async fn next(&mut self) -> Result<SentEvent, EventsError> {
        loop {
            let Some(open) = &mut self.open else {
                match self.http.open_events(&self.query).await {
                    Ok(open) => self.open = Some(open),
                    Err(error) if error.is_temporary() => sleep(self.backoff.pause()).await,
                    Err(error) => return Err(error),
                }
                continue;
            };
            let event = open.next().await;
            if let Some(id) = open.last_id() {
                self.query.last_id = Some(id.to_owned());
            }
            match event {
                Some(event) => {
                    self.backoff.reset();
                    return Ok(event);
                }
                None => {
                    self.open = None;
                    sleep(self.backoff.pause()).await;
                }
            }
        }
    }
}
