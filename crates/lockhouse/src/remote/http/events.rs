//! The events of a bucket, as its server sends them.
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use tokio::time::{Instant, sleep, timeout};

use super::call::Call;
use super::client::{Answer, Http, Unanswered};
use crate::remote::session::backoff::{Backoff, GOOD};

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
    /// A success without a stream of events, or with one that ends at once, again and again: no lockhouse
    /// server answers so. The answer has no body.
    #[error("the server does not answer as a lockhouse server: status {} and no events", .0.status)]
    NoEvents(Answer),
}

impl EventsError {
    /// An answer with this status that has no events.
    pub(crate) fn none(status: StatusCode) -> Self {
        let status = status.as_u16();
        Self::NoEvents(Answer { status, is_replayed: false, location: None, body: Vec::new() })
    }

    /// Whether the same may be had later. Where events have come before, a page in their place is that of a
    /// proxy.
    fn is_temporary(&self, has_begun: bool) -> bool {
        match self {
            Self::Unanswered(Unanswered::Untrusted(_)) => false,
            Self::Unanswered(_) => true,
            Self::NoEvents(_) => has_begun,
            Self::Refused(answer) => matches!(answer.status, 429 | 502..=504),
        }
    }
}

/// The events of one connection, until it ends.
#[derive(Debug)]
pub struct SentEvents {
    body: Incoming,
    text: Vec<u8>,
    /// What has come and is not handed out yet; a comment with an id is an event without data.
    ready: VecDeque<SentEvent>,
    last_id: Option<String>,
    has_begun: bool,
}

/// A server writes something at least each 15 s; a connection that is silent for this long is over.
const SILENCE: Duration = Duration::from_secs(40);

/// The content type of events.
const EVENT_STREAM: &str = "text/event-stream";

/// The number of streams that end at once and bring nothing, after which no lockhouse server is there: one
/// that stops ends only a few so.
pub const EMPTY_STREAMS: u32 = 5;

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
            while let Some(event) = self.ready.pop_front() {
                if !event.id.is_empty() {
                    self.last_id = Some(event.id.clone());
                }
                if !event.data.is_empty() {
                    return Some(event);
                }
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

    /// The id of the last event that [`next`](Self::next) has returned, or of a comment behind it: to go on
    /// behind.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Whether an event has come, or the id of one. A lockhouse server sends an id at once, unless the query
    /// has one or asks for the state.
    pub fn has_begun(&self) -> bool {
        self.has_begun
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
        if !event.id.is_empty() || !event.data.is_empty() {
            self.has_begun = true;
            self.ready.push_back(event);
        }
    }
}

impl Http {
    /// Opens the events of the bucket, over one connection. Each of several URLs is tried once. Each has 10 s
    /// to begin its answer.
    ///
    /// # Errors
    ///
    /// [`EventsError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn open_events(&self, query: &EventQuery) -> Result<SentEvents, EventsError> {
        let response = self.open(&query.call()).await?.map_err(EventsError::Refused)?;
        let content = response.headers().get(CONTENT_TYPE).and_then(|content| content.to_str().ok());
        let is_stream = content.is_some_and(|content| {
            content.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(EVENT_STREAM))
        });
        if response.status() != StatusCode::OK || !is_stream {
            return Err(EventsError::none(response.status()));
        }
        let body = response.into_body();
        let (text, ready) = (Vec::new(), VecDeque::new());
        Ok(SentEvents { body, text, ready, last_id: query.last_id.clone(), has_begun: false })
    }

    /// The events of the bucket, over as many connections as it takes: it goes on behind the last event by
    /// itself, also if nothing comes for 40 s, or no answer within 10 s. Where events are missing a `gap`
    /// comes, and then the `state`. An error that time does not mend ends the stream, and so do
    /// [`EMPTY_STREAMS`] answers that end at once, before the first event.
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
    pub fn events(
        &self,
        query: EventQuery,
    ) -> impl Stream<Item = Result<SentEvent, EventsError>> + Send + use<> {
        let (http, backoff) = (self.clone(), Backoff::default());
        let state =
            Some(Reconnecting { http, query, open: None, has_begun: false, empty_streams: 0, backoff });
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
    /// The present connection, and since when it is there.
    open: Option<(SentEvents, Instant)>,
    /// Whether one of the connections had events.
    has_begun: bool,
    /// The number of connections that had none, before the first one that had.
    empty_streams: u32,
    backoff: Backoff,
}

impl Reconnecting {
    async fn next(&mut self) -> Result<SentEvent, EventsError> {
        loop {
            let Some((open, since)) = &mut self.open else {
                match self.http.open_events(&self.query).await {
                    Ok(open) => self.open = Some((open, Instant::now())),
                    Err(error) if error.is_temporary(self.has_begun) => sleep(self.backoff.pause()).await,
                    Err(error) => return Err(error),
                }
                continue;
            };
            let event = open.next().await;
            self.has_begun |= open.has_begun();
            if let Some(id) = open.last_id() {
                self.query.last_id = Some(id.to_owned());
            }
            match event {
                Some(event) => {
                    self.backoff.reset();
                    return Ok(event);
                }
                None => {
                    // Where nothing happens, a connection that has lasted was good as well.
                    if since.elapsed() >= GOOD {
                        self.backoff.reset();
                    } else if !self.has_begun {
                        self.empty_streams += 1;
                        if self.empty_streams == EMPTY_STREAMS {
                            return Err(EventsError::none(StatusCode::OK));
                        }
                    }
                    self.open = None;
                    sleep(self.backoff.pause()).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time;

    use super::*;
    use crate::remote::connect;
    use crate::remote::transport::endpoints::LONGEST_PATIENCE;

    /// Two places where a server is to be; a client begins with one or the other.
    struct Places([TcpListener; 2]);

    /// A request of events, and the connection to answer it.
    struct Peer {
        place: usize,
        request: String,
        stream: TcpStream,
    }

    impl Places {
        async fn new() -> Self {
            let listen = || TcpListener::bind("127.0.0.1:0");
            Self([listen().await.unwrap(), listen().await.unwrap()])
        }

        fn http(&self) -> Http {
            let [one, other] =
                self.0.each_ref().map(|place| format!("http://{}", place.local_addr().unwrap()));
            connect(one).or(other).http().unwrap()
        }

        async fn next(&self) -> Peer {
            let [one, other] = &self.0;
            let (place, accepted) = tokio::select! {
                accepted = one.accept() => (0, accepted),
                accepted = other.accept() => (1, accepted),
            };
            let (mut stream, mut request) = (accepted.unwrap().0, Vec::new());
            while !request.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            Peer { place, request: String::from_utf8(request).unwrap(), stream }
        }
    }

    impl Peer {
        async fn send(&mut self, text: &str) {
            self.stream.write_all(text.as_bytes()).await.unwrap();
        }

        async fn begin(&mut self) {
            self.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
                .await;
        }
    }

    /// So long passes at once.
    async fn pass(time: Duration) {
        time::pause();
        time::advance(time + Duration::from_millis(1)).await;
        time::resume();
    }

    #[tokio::test]
    async fn events_go_on_at_the_other_url_where_one_stalls_and_after_a_connection_that_is_silent() {
        let places = Places::new().await;
        let (events, (send, mut received)) =
            (places.http().events(EventQuery::new().state()), unbounded_channel());
        tokio::spawn(async move {
            let mut events = Box::pin(events);
            while let Some(event) = events.next().await {
                send.send(event.unwrap().id).unwrap();
            }
        });
        let mut first = places.next().await;
        assert!(first.request.contains("?state=true "), "{}", first.request);
        first.begin().await;
        first.send("id: a.1\nevent: granted\ndata: {}\n\n").await;
        assert_eq!(received.recv().await.unwrap(), "a.1");

        // The connection is cut, and the next one is taken, but not answered.
        let place = first.place;
        drop(first);
        let stalled = places.next().await;
        assert_eq!(stalled.place, place);
        pass(LONGEST_PATIENCE).await;
        let mut other = places.next().await;
        assert_ne!(other.place, place);
        assert!(other.request.contains("lastEventId=a.1"), "{}", other.request);
        other.begin().await;
        other.send("id: a.2\nevent: ended\ndata: {}\n\n").await;
        assert_eq!(received.recv().await.unwrap(), "a.2");

        pass(SILENCE).await;
        let next = places.next().await;
        assert!(next.request.contains("lastEventId=a.2"), "{}", next.request);
    }

    #[tokio::test]
    async fn a_question_goes_on_at_the_other_url_where_one_stalls_and_a_change_does_not() {
        for (call, goes_on) in [(Call::get(&["query"]), true), (Call::post(&["claims"]), false)] {
            let places = Places::new().await;
            let http = places.http();
            let sending = tokio::spawn(async move { http.send(&call).await });
            let stalled = places.next().await;
            pass(LONGEST_PATIENCE).await;
            if goes_on {
                let mut other = places.next().await;
                assert_ne!(other.place, stalled.place);
                other.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
                assert_eq!(sending.await.unwrap().unwrap().body, b"{}");
            } else {
                drop(stalled);
                assert!(matches!(sending.await.unwrap(), Err(Unanswered::BrokenOff(_))));
            }
        }
    }

    #[tokio::test]
    async fn the_last_id_is_that_of_what_was_handed_out() {
        let places = Places::new().await;
        let (http, query) = (places.http(), EventQuery::new());
        let (events, peer) = tokio::join!(http.open_events(&query), async {
            let mut peer = places.next().await;
            peer.begin().await;
            peer.send("id: a.1\ndata: {}\n\nid: a.2\ndata: {}\n\n: \nid: a.5\n\n").await;
            peer
        });
        drop(peer);
        let mut events = events.unwrap();
        assert_eq!(events.last_id(), None);
        for id in ["a.1", "a.2"] {
            assert_eq!(events.next().await.unwrap().id, id);
            assert_eq!(events.last_id(), Some(id));
        }
        assert_eq!(events.next().await, None);
        assert_eq!(events.last_id(), Some("a.5"));
    }

    #[tokio::test]
    async fn streams_that_end_at_once_again_and_again_are_those_of_no_lockhouse_server() {
        for first in [None, Some("id: a.1\n\n")] {
            let places = Places::new().await;
            let events = places.http().events(EventQuery::new());
            let reading = tokio::spawn(async move {
                let mut events = Box::pin(events);
                events.next().await
            });
            let answered = async {
                for attempt in 0..EMPTY_STREAMS {
                    let mut peer = places.next().await;
                    peer.begin().await;
                    if let (0, Some(first)) = (attempt, first) {
                        peer.send(first).await;
                    }
                    drop(peer);
                }
                places.next().await
            };
            match first {
                None => {
                    let read = tokio::select! {
                        read = reading => read.unwrap(),
                        _ = answered => panic!("it goes on"),
                    };
                    assert_eq!(read, Some(Err(EventsError::none(StatusCode::OK))));
                }
                Some(_) => {
                    answered.await;
                    reading.abort();
                }
            }
        }
    }

    #[tokio::test]
    async fn where_nothing_happens_a_connection_that_has_lasted_is_soon_replaced() {
        let places = Places::new().await;
        let (http, query) = (places.http(), EventQuery::new());
        let (events, peer) = tokio::join!(http.open_events(&query), async {
            let mut peer = places.next().await;
            peer.begin().await;
            peer
        });
        let mut backoff = Backoff::default();
        for _ in 0..10 {
            backoff.pause();
        }
        let open = Some((events.unwrap(), Instant::now()));
        let mut state = Reconnecting { http, query, open, has_begun: true, empty_streams: 0, backoff };
        pass(GOOD).await;
        drop(peer);
        let begun = Instant::now();
        tokio::select! {
            event = state.next() => panic!("{event:?}"),
            _peer = places.next() => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn of_several_failures_one_that_may_pass_is_reported() {
        let [plain, gone] = Places::new().await.0;
        let [no_tls, nothing] =
            [&plain, &gone].map(|place| format!("https://{}", place.local_addr().unwrap()));
        drop(gone);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = plain.accept().await {
                _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            }
        });
        for (urls, is_temporary) in [([&no_tls, &nothing], true), ([&no_tls, &no_tls], false)] {
            let http = connect(urls[0]).or(urls[1]).http().unwrap();
            let error = http.open_events(&EventQuery::new()).await.unwrap_err();
            assert_eq!(error.is_temporary(false), is_temporary, "{error:?}");
        }
    }
}
