//! One stream: the events of a bucket as they come, until the reader or the server ends it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::vec::IntoIter;

use axum::response::sse::Event;
use futures_util::Stream;
use futures_util::stream::unfold;
use lockhouse::{Bucket, EventItem, EventPosition, Events, EventsFrom, LockInfo, MemoryReservation};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::bodies::{EventData, EventQuestion, StateData, word};
use crate::bounds::{EVENT_GATHERING, EVENT_STATE_ENTRIES, STREAM_HEARTBEAT};
use crate::clock::until;
use crate::http::query::entry::Entry;
use crate::limits::{Permit, QUOTA, price_of_query, price_of_text};
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
    state: Arc<AppState>,
    bucket: Bucket,
    events: Events,
    filter_is_name: bool,
    right: StreamRight,
    phase: watch::Receiver<Phase>,
    /// What is to be sent next.
    ready: VecDeque<Event>,
    /// The rest of the present state.
    rest: Option<StateRest>,
    /// The log is looked at no earlier, so that many readers of a busy bucket do not keep it from its work.
    next_look: Instant,
    /// When a comment is due, unless something is sent before.
    heartbeat: Instant,
    every: Duration,
}

struct StateRest {
    entries: IntoIter<LockInfo>,
    position: EventPosition,
    #[expect(dead_code, reason = "kept for its end")]
    memory: Option<Arc<MemoryReservation>>,
}

impl EventStream {
    pub(super) fn new(
        state: Arc<AppState>,
        bucket: Bucket,
        question: EventQuestion,
        right: StreamRight,
    ) -> Self {
        let EventQuestion { from, filter } = question;
        let filter_is_name = filter.name.is_some();
        let events = bucket.events(from, filter);
        // A connection on which nothing is written for so long is given up.
        let every = STREAM_HEARTBEAT.min(state.limiter.settings().idle_timeout / 3);
        let (phase, now) = (state.phases(), Instant::now());
        let mut ready = VecDeque::new();
        if from == EventsFrom::Now {
            // A reader that is cut off before the first event goes on from here.
            ready.push_back(id_alone(events.position()));
        }
        Self {
            state,
            bucket,
            events,
            filter_is_name,
            right,
            phase,
            ready,
            rest: None,
            next_look: now,
            heartbeat: now + every,
            every,
        }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        unfold(self, |mut stream| async move { Some((Ok(stream.next().await?), stream)) })
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if let Some(lease) = self.bucket.slot_lease().filter(|lease| lease.is_mute()) {
                    // What has happened may be another node's to tell by now.
                    let lease = lease.clone();
                    tokio::select! {
                        () = lease.unmuted() => {}
                        () = ends(&mut self.phase, &mut self.right) => return None,
                    }
                }
                self.heartbeat = Instant::now() + self.every;
                return Some(event);
            }
            let heartbeat = self.heartbeat;
            tokio::select! {
                biased;
                () = ends(&mut self.phase, &mut self.right) => return None,
                is_over = Self::fill(
                    &self.state, &self.bucket, &mut self.events, self.filter_is_name, &mut self.rest,
                    &mut self.ready, &mut self.next_look,
                ) => if is_over { return None },
                () = sleep_until(heartbeat) => self.ready.push_back(id_alone(self.events.position())),
            }
        }
    }

    /// Fills `ready`. Cancel safe. Returns whether the bucket is served here no more.
    async fn fill(
        state: &AppState,
        bucket: &Bucket,
        events: &mut Events,
        filter_is_name: bool,
        rest: &mut Option<StateRest>,
        ready: &mut VecDeque<Event>,
        next_look: &mut Instant,
    ) -> bool {
        if let Some(state_rest) = rest {
            ready.push_back(state_rest.next_part());
            if state_rest.entries.len() == 0 {
                *rest = None;
            }
            return false;
        }
        let tenant = bucket.key().tenant();
        if events.needs_state() {
            let Some(memory) = memory_for_state(state, bucket, filter_is_name) else {
                sleep(QUOTA).await;
                return false;
            };
            match events.next().await {
                Some(Ok(EventItem::State(position, snapshot))) => {
                    let entries: Vec<_> = snapshot.held.into_iter().chain(snapshot.pending).collect();
                    state.limiter.charge_call(tenant, price_of_query(entries.len()));
                    let mut parts = StateRest { entries: entries.into_iter(), position, memory };
                    ready.push_back(parts.next_part());
                    *rest = Some(parts).filter(|parts| parts.entries.len() > 0);
                }
                Some(Ok(_)) => {}
                // The store is away: the state comes once it is back.
                Some(Err(_)) => sleep(QUOTA).await,
                None => return true,
            }
            return false;
        }
        sleep_until(*next_look).await;
        match events.next().await {
            Some(Ok(EventItem::Event(first))) => {
                *next_look = Instant::now() + EVENT_GATHERING;
                let mut bytes = 0;
                let mut next = Some(first);
                while let Some(event) = next {
                    let (kind, position) = (word(&event.kind), event.position);
                    let text = json(&EventData::from(event));
                    bytes += text.len();
                    ready.push_back(Event::default().id(position.to_string()).event(kind).data(text));
                    next = events.take_found();
                }
                state.limiter.charge_call(tenant, price_of_text(bytes));
            }
            Some(Ok(EventItem::Gap)) => ready.push_back(Event::default().event("gap").data("{}")),
            Some(Ok(_)) => {}
            Some(Err(_)) => sleep(QUOTA).await,
            None => return true,
        }
        false
    }
}

/// Memory for a copy of the state; none of it is needed for that of one name. None if the copies of the
/// tenant take as much as they may.
fn memory_for_state(
    state: &AppState,
    bucket: &Bucket,
    is_of_name: bool,
) -> Option<Option<Arc<MemoryReservation>>> {
    if is_of_name {
        return Some(None);
    }
    state.limiter.reserve_for_query(bucket.key().tenant(), bucket.bytes_of_snapshot()).map(Some)
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
    /// The last part has the id behind which later events come: a reader that is cut off before begins anew.
    fn next_part(&mut self) -> Event {
        let entries: Vec<_> = self.entries.by_ref().take(EVENT_STATE_ENTRIES).map(Entry::from).collect();
        let last = self.entries.len() == 0;
        let event = Event::default().event("state").data(json(&StateData { entries, last }));
        if last { event.id(self.position.to_string()) } else { event }
    }
}

/// A comment, with the id up to which the reader has all that it asks for.
fn id_alone(position: EventPosition) -> Event {
    Event::default().id(position.to_string()).comment("")
}

fn json(what: &impl serde::Serialize) -> String {
    serde_json::to_string(what).expect("what is sent can be written")
}
