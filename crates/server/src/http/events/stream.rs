//! One stream: the events of a bucket as they come, until the reader or the server ends it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::vec::IntoIter;

use axum::response::sse::Event;
use futures_util::Stream;
use futures_util::stream::unfold;
use lockhouse::{
    Bucket, BucketEvent, EventItem, EventPosition, Events, EventsFrom, EventsLook, LockInfo,
    MemoryReservation, NameBuf, StoreError,
};
use serde_json::value::to_raw_value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::bodies::{EventData, EventQuestion, StateData, word};
use crate::bounds::{
    EVENT_BATCH, EVENT_GATHERING, EVENT_STATE_ENTRIES, EVENT_STATE_PAUSE, EVENT_TEXT, STREAM_HEARTBEAT,
};
use crate::clock::until;
use crate::http::query::entry::Entry;
use crate::limits::{FairTurns, Permit, QUOTA, block_in_place_if_large, price_of_query, price_of_text};
use crate::state::{AppState, Phase};
use crate::websocket::Admission;

/// The right of a reader to its stream, as far as it may end.
#[derive(Debug)]
pub(crate) struct StreamRight {
    /// None where there is no authentication that could take it away.
    pub(crate) admission: Option<Admission>,
    /// The end of the client's certificate.
    pub(crate) certificate_end: Option<SystemTime>,
    #[expect(dead_code, reason = "kept for its end")]
    pub(crate) permits: [Permit<String>; 2],
}

/// One stream of events.
pub(super) struct EventStream {
    source: Source,
    right: StreamRight,
    phase: watch::Receiver<Phase>,
    /// When a comment is due, unless something is sent before.
    heartbeat: Instant,
    every: Duration,
}

/// Where the events of a stream come from.
struct Source {
    state: Arc<AppState>,
    bucket: Bucket,
    events: Events,
    /// The only name that is asked for, if there is one.
    name: Option<NameBuf>,
    /// What is to be sent next, and the memory that it takes until the reader has it.
    ready: VecDeque<Event>,
    memory: Option<MemoryReservation>,
    /// The rest of the present state.
    rest: Option<StateRest>,
    /// The turns of the stream among all that the tenant does: those who look on wait, as those who lock do.
    turns: FairTurns,
    /// Whether the last look has found the end of what has happened.
    is_caught_up: bool,
    next_look: Instant,
    next_state: Instant,
}

struct StateRest {
    entries: IntoIter<LockInfo>,
    position: EventPosition,
    #[expect(dead_code, reason = "kept for its end")]
    memory: Arc<MemoryReservation>,
}

impl EventStream {
    pub(super) fn new(
        state: Arc<AppState>,
        bucket: Bucket,
        question: EventQuestion,
        right: StreamRight,
    ) -> Self {
        let EventQuestion { from, filter } = question;
        let name = filter.name.clone();
        let events = bucket.events(from, filter);
        // A connection on which nothing is written for so long is given up.
        let every = STREAM_HEARTBEAT.min(state.limiter.settings().idle_timeout / 3);
        let (phase, now) = (state.phases(), Instant::now());
        let mut ready = VecDeque::new();
        if from == EventsFrom::Now {
            // A reader that is cut off before the first event goes on from here.
            ready.push_back(id_alone(events.position()));
        }
        let source = Source {
            state,
            bucket,
            events,
            name,
            ready,
            memory: None,
            rest: None,
            turns: FairTurns::new(now),
            is_caught_up: false,
            next_look: now,
            next_state: now,
        };
        Self { source, right, phase, heartbeat: now + every, every }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        unfold(self, |mut stream| async move { Some((Ok(stream.next().await?), stream)) })
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.source.ready.pop_front() {
                if let Some(lease) = self.source.bucket.slot_lease().filter(|lease| lease.is_mute()) {
                    // What has happened may be another node's to tell by now.
                    let lease = lease.clone();
                    tokio::select! {
                        () = lease.unmuted() => {}
                        () = self.source.events.over() => return None,
                        () = ends(&mut self.phase, &mut self.right) => return None,
                    }
                }
                self.heartbeat = Instant::now() + self.every;
                return Some(event);
            }
            tokio::select! {
                biased;
                () = ends(&mut self.phase, &mut self.right) => return None,
                is_over = self.source.fill() => if is_over { return None },
                () = sleep_until(self.heartbeat) => {
                    let comment = self.source.comment();
                    self.source.ready.push_back(comment);
                }
            }
        }
    }
}

impl Source {
    /// Makes ready what comes next. Returns whether the bucket is served here no more.
    ///
    /// Cancel safe.
    async fn fill(&mut self) -> bool {
        // The reader has what was ready.
        self.memory = None;
        sleep_until(self.turns.next()).await;
        if self.rest.is_some() {
            return self.send_part().await;
        }
        if self.events.needs_state() {
            let over = self.events.over();
            return tokio::select! {
                biased;
                () = over => true,
                is_over = self.take_state() => is_over,
            };
        }
        if self.is_caught_up {
            self.pass_turn();
            self.events.changed().await;
            self.is_caught_up = false;
        }
        sleep_until(self.next_look).await;
        self.look().await
    }

    /// Makes ready what has happened since the last look, or a part of it.
    async fn look(&mut self) -> bool {
        let Some(memory) = self.reserve() else { return self.pause().await };
        let before = self.events.position().number;
        let (mut bytes, mut is_over) = (0, false);
        while bytes < EVENT_BATCH {
            match self.events.look() {
                EventsLook::Found(EventItem::Event(event)) => {
                    let (event, length) = event_of(event);
                    bytes += length;
                    self.ready.push_back(event);
                }
                EventsLook::Found(_) => {
                    self.ready.push_back(Event::default().event("gap").data("{}"));
                    break;
                }
                EventsLook::Nothing => {
                    self.is_caught_up = true;
                    self.next_look = Instant::now() + EVENT_GATHERING;
                    break;
                }
                EventsLook::Over => {
                    is_over = self.ready.is_empty();
                    break;
                }
            }
        }
        let looked_at = self.events.position().number.saturating_sub(before);
        let looked_at = price_of_query(looked_at.try_into().unwrap_or(usize::MAX));
        self.charge(looked_at.saturating_add(price_of_text(bytes)));
        self.memory = Some(memory).filter(|_| !self.ready.is_empty());
        is_over
    }

    /// Copies the present state, at the price of all that is looked at for it.
    async fn take_state(&mut self) -> bool {
        sleep_until(self.next_state).await;
        let (bytes, count) = match &self.name {
            Some(name) => self.bucket.size_of_snapshot_of(name.as_name()),
            None => (self.bucket.bytes_of_snapshot(), self.bucket.len()),
        };
        let Some(memory) = self.state.limiter.reserve_for_query(self.bucket.key().tenant(), bytes) else {
            return self.pause().await;
        };
        self.next_state = Instant::now() + EVENT_STATE_PAUSE;
        self.charge(price_of_query(count));
        let item = {
            let mut next = pin!(self.events.next());
            poll_fn(|context| block_in_place_if_large(count, || next.as_mut().poll(context))).await
        };
        match item {
            Some(Ok(EventItem::State(position, snapshot))) => {
                let entries: Vec<_> = snapshot.held.into_iter().chain(snapshot.pending).collect();
                self.rest = Some(StateRest { entries: entries.into_iter(), position, memory });
                false
            }
            Some(Ok(_)) => false,
            // The state comes once the store is back.
            Some(Err(StoreError::Unavailable { .. })) => self.pause().await,
            Some(Err(_)) | None => true,
        }
    }

    /// Makes the next part of the present state ready.
    async fn send_part(&mut self) -> bool {
        let Some(memory) = self.reserve() else { return self.pause().await };
        let Some(rest) = &mut self.rest else { return false };
        let (event, bytes, is_last) = rest.next_part();
        if is_last {
            self.rest = None;
        }
        self.ready.push_back(event);
        self.memory = Some(memory);
        self.charge(price_of_text(bytes));
        false
    }

    /// Memory for what is ready; none while the clients of the tenant leave too much unread.
    fn reserve(&self) -> Option<MemoryReservation> {
        let mut memory = self.state.limiter.unread.of(self.bucket.key().tenant());
        memory.reserve(EVENT_BATCH + EVENT_TEXT).ok()?;
        Some(memory)
    }

    /// Waits until it may be better. Returns whether the bucket is served here no more.
    async fn pause(&self) -> bool {
        tokio::select! {
            () = self.events.over() => true,
            () = sleep(QUOTA) => false,
        }
    }

    /// Charges for a step, which costs one at least.
    fn charge(&mut self, price: u32) {
        let limiter = &self.state.limiter;
        let (tenant, rate) = (self.bucket.key().tenant(), limiter.settings().tenant_rate);
        self.turns.charge(&limiter.rate_limiters, tenant, price.saturating_add(1), rate);
    }

    fn pass_turn(&mut self) {
        let limiter = &self.state.limiter;
        self.turns.pass(&limiter.rate_limiters, self.bucket.key().tenant(), limiter.settings().tenant_rate);
    }

    /// A comment, with the id up to which the reader has all that it asks for, if it has.
    fn comment(&self) -> Event {
        if self.events.needs_state() || self.rest.is_some() {
            return Event::default().comment("");
        }
        id_alone(self.events.position())
    }
}

impl Drop for Source {
    /// Gives back what was paid for the next turn.
    fn drop(&mut self) {
        self.pass_turn();
    }
}

/// Comes when the reader may have no more of the stream: the server stops, the credential or the certificate
/// has ended, or a permission was taken.
async fn ends(phase: &mut watch::Receiver<Phase>, right: &mut StreamRight) {
    let StreamRight { admission, certificate_end, .. } = right;
    let loses_right = async {
        let Some(admission) = admission else { return std::future::pending().await };
        loop {
            admission.due().await;
            if admission.revalidate().is_err() {
                return;
            }
        }
    };
    tokio::select! {
        // The server outlives its streams.
        _ = phase.wait_for(|phase| *phase == Phase::Stopping) => {}
        () = loses_right => {}
        () = until(*certificate_end) => {}
    }
}

impl StateRest {
    /// The next part, the length of its text, and whether it is the last. The last part has the id behind
    /// which later events come: a reader that is cut off before begins anew.
    fn next_part(&mut self) -> (Event, usize, bool) {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while entries.len() < EVENT_STATE_ENTRIES && bytes < EVENT_BATCH {
            let Some(entry) = self.entries.next() else { break };
            let entry = to_raw_value(&Entry::from(entry)).expect("an entry can be written");
            bytes += entry.get().len();
            entries.push(entry);
        }
        let last = self.entries.len() == 0;
        let event = Event::default().event("state").data(json(&StateData { entries, last }));
        (if last { event.id(self.position.to_string()) } else { event }, bytes, last)
    }
}

/// An event as it is sent, and the length of its text.
fn event_of(event: BucketEvent) -> (Event, usize) {
    let (kind, position) = (word(&event.kind), event.position);
    let text = json(&EventData::from(event));
    let length = text.len();
    (Event::default().id(position.to_string()).event(kind).data(text), length)
}

/// A comment with an id.
fn id_alone(position: EventPosition) -> Event {
    Event::default().id(position.to_string()).comment("")
}

fn json(what: &impl serde::Serialize) -> String {
    serde_json::to_string(what).expect("what is sent can be written")
}
